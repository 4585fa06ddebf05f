"""All but jobs and queues on a real server meets the contract, and leaves nothing that has neither owner nor expiry."""

# ruff: noqa: F401 - its tests and fixtures are collected from here
from __future__ import annotations

import pytest

from tests.stores.redis.leaks import left_behind
from tests.stores.redis.servers import Server
from workfleet.ports.stores import Store
from workfleet.testing.contracts import (
    Leaks,
    TestDefinitions,
    TestFires,
    TestFleet,
    TestKeys,
    TestLocks,
    TestStore,
    TestWaiting,
    clock,
    store,
)


@pytest.fixture
def leaks(server: Server) -> Leaks:
    async def look(_: Store) -> list[str]:
        return left_behind(server)

    return look
