"""What a store is, as tests: every sentence of `workfleet.ports.stores`, for any store.

A store's own test file is a few lines (pytest, pytest-asyncio):

    from workfleet.testing.contracts import *

    @pytest.fixture
    def opener(tmp_path):
        async def open(app: str, clock: Clock) -> Store:
            return await open_store(f"sqlite://{tmp_path}/store.db", app=app, clock=clock, create=True)
        return open

`opener` opens the same data each time, for whichever app it is asked. A fixture `leaks` of its own may look at what the
store left behind; one `clock` of its own may let real time pass where a store has no injected clock.
"""

from __future__ import annotations

# ruff: noqa: E402 - what is imported after this call has asserts that say what they compared
import pytest

_MODULES = "claim enqueue harness keeping keys locks reading schedules settle takeover waiting whole"
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES.split()))

from .claim import TestClaim, TestRenew
from .enqueue import TestEnqueue, TestUniqueKeys
from .harness import Leaks, ManualClock, Opener, clock, leaks, store
from .keeping import TestPrune, TestRetry
from .keys import TestKeys
from .locks import TestLocks
from .reading import TestCounts, TestReading
from .schedules import TestDefinitions, TestFires
from .settle import TestReport, TestSettle
from .takeover import TestTakeOver
from .waiting import TestWaiting
from .whole import TestFleet, TestStore

__all__ = [
    "Leaks",
    "ManualClock",
    "Opener",
    "TestClaim",
    "TestCounts",
    "TestDefinitions",
    "TestEnqueue",
    "TestFires",
    "TestFleet",
    "TestKeys",
    "TestLocks",
    "TestPrune",
    "TestReading",
    "TestRenew",
    "TestReport",
    "TestRetry",
    "TestSettle",
    "TestStore",
    "TestTakeOver",
    "TestUniqueKeys",
    "TestWaiting",
    "clock",
    "leaks",
    "store",
]
