"""All but jobs and queues on a real server meets the contract, and leaves nothing that has neither owner nor expiry."""

# ruff: noqa: F401 - its tests and fixtures are collected from here
from __future__ import annotations

import pytest

from tests.stores.redis import test_redis_jobs
from tests.stores.redis.conftest import Place
from workfleet.ports.stores import Store
from workfleet.testing import contracts
from workfleet.testing.contracts import (
    Leaks,
    TestCancelRunning,
    TestDefinitions,
    TestDueSchedules,
    TestFires,
    TestFleet,
    TestKeys,
    TestLedger,
    TestLocks,
    TestNotes,
    TestOverlapChanged,
    TestPulse,
    TestQueueOne,
    TestStore,
    TestWaiting,
    TestWaits,
    clock,
    store,
)


def test_no_part_of_the_contract_is_left_out() -> None:
    parts = {name for name in contracts.__all__ if name.startswith("Test")}
    assert parts == {name for name in (*globals(), *vars(test_redis_jobs)) if name.startswith("Test")}


@pytest.fixture
def leaks(place: Place) -> Leaks:
    async def look(_: Store) -> list[str]:
        return place.left_behind()

    return look
