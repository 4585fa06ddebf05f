"""Jobs and queues on a real server meet the contract, and leave nothing without an owner or an expiry behind."""

# ruff: noqa: F401 - the tests and fixtures are collected from here

from __future__ import annotations

import pytest

from tests.stores.redis.conftest import Place
from workfleet.ports.stores import Store
from workfleet.testing.contracts import (
    Leaks,
    TestCancel,
    TestClaim,
    TestConcurrency,
    TestCounts,
    TestDebounce,
    TestDelete,
    TestEnqueue,
    TestExclusive,
    TestExpiredHolder,
    TestExpiry,
    TestGroupLimits,
    TestGroups,
    TestKeep,
    TestKeysUnderRace,
    TestListing,
    TestPausing,
    TestPlace,
    TestPromote,
    TestPrune,
    TestPurge,
    TestQueues,
    TestRates,
    TestReading,
    TestRenew,
    TestRepeats,
    TestReplace,
    TestReport,
    TestRetry,
    TestSettle,
    TestShares,
    TestStaleClaims,
    TestTakeOver,
    TestUniqueKeys,
    TestUniqueWindow,
    TestUntilStarted,
    TestWaitForCancels,
    TestWaiting,
    TestWhoStandsForAFollowUp,
    clock,
    store,
)


@pytest.fixture
def leaks(place: Place) -> Leaks:
    async def look(_: Store) -> list[str]:
        return place.left_behind()

    return look
