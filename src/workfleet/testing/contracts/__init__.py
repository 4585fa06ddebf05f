"""What a store is, as tests: every sentence of `workfleet.ports.stores`, for any store.

A store's own test file is a few lines (pytest, pytest-asyncio):

    from workfleet.testing.contracts import *

    @pytest.fixture
    def opener(tmp_path):
        async def open(app: str, clock: Clock) -> Store:
            return await open_store(f"sqlite://{tmp_path}/store.db", app=app, clock=clock, create=True)
        return open

`opener` opens the same data each time, for whichever app it is asked. A fixture `leaks` of its own looks at what the
store left behind (`harness.Leaks` says what that must be); one `clock` of its own may let real time pass where a store
has no injected clock. `contracts.machine` compares a store with the one in memory over random histories.
"""

from __future__ import annotations

# ruff: noqa: E402 - what is imported after this call has asserts that say what they compared
import pytest

_MODULES = """
cancelling claim enqueue exclusive groups handing harness histories keeping keys lapsed ledger listing locks machine
operating overlap placing pulse queues rates reading repeats replacing retention schedules settle shares takeover unique
waiting whole
"""
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES.split()))

from .cancelling import TestCancel, TestWaitForCancels
from .claim import TestClaim, TestRenew
from .enqueue import TestEnqueue, TestUniqueKeys
from .exclusive import TestExclusive
from .groups import TestGroupLimits, TestGroups
from .handing import TestDueSchedules
from .harness import Leaks, ManualClock, Opener, clock, leaks, store
from .keeping import TestPrune, TestRetry
from .keys import TestKeys
from .lapsed import TestExpiredHolder, TestWhoStandsForAFollowUp
from .ledger import TestLedger
from .listing import TestListing
from .locks import TestLocks
from .operating import TestDelete, TestPromote, TestPurge
from .overlap import TestCancelRunning, TestNotes, TestOverlapChanged, TestQueueOne, TestWaits
from .placing import TestPlace
from .pulse import TestPulse
from .queues import TestConcurrency, TestPausing, TestQueues
from .rates import TestRates
from .reading import TestCounts, TestReading
from .repeats import TestRepeats, TestStaleClaims
from .replacing import TestDebounce, TestReplace
from .retention import TestExpiry, TestKeep
from .schedules import TestDefinitions, TestFires
from .settle import TestReport, TestSettle
from .shares import TestShares
from .takeover import TestTakeOver
from .unique import TestKeysUnderRace, TestUniqueWindow, TestUntilStarted
from .waiting import TestWaiting
from .whole import TestFleet, TestStore

__all__ = [
    "Leaks",
    "ManualClock",
    "Opener",
    "TestCancel",
    "TestCancelRunning",
    "TestClaim",
    "TestConcurrency",
    "TestCounts",
    "TestDebounce",
    "TestDefinitions",
    "TestDelete",
    "TestDueSchedules",
    "TestEnqueue",
    "TestExclusive",
    "TestExpiredHolder",
    "TestExpiry",
    "TestFires",
    "TestFleet",
    "TestGroupLimits",
    "TestGroups",
    "TestKeep",
    "TestKeys",
    "TestKeysUnderRace",
    "TestLedger",
    "TestListing",
    "TestLocks",
    "TestNotes",
    "TestOverlapChanged",
    "TestPausing",
    "TestPlace",
    "TestPromote",
    "TestPrune",
    "TestPulse",
    "TestPurge",
    "TestQueueOne",
    "TestQueues",
    "TestRates",
    "TestReading",
    "TestRenew",
    "TestRepeats",
    "TestReplace",
    "TestReport",
    "TestRetry",
    "TestSettle",
    "TestShares",
    "TestStaleClaims",
    "TestStore",
    "TestTakeOver",
    "TestUniqueKeys",
    "TestUniqueWindow",
    "TestUntilStarted",
    "TestWaitForCancels",
    "TestWaiting",
    "TestWaits",
    "TestWhoStandsForAFollowUp",
    "clock",
    "leaks",
    "store",
]
