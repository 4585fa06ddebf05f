"""The memory store meets the contract."""

from __future__ import annotations

import pytest

from workfleet.ports.clock import Clock
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing.contracts import *  # noqa: F403 - its tests and fixtures are collected from here
from workfleet.testing.contracts import Opener


@pytest.fixture
def opener() -> Opener:
    stores: dict[str, MemoryStore] = {}

    async def open_again(app: str, clock: Clock) -> MemoryStore:
        return stores.setdefault(app, MemoryStore(app, clock))

    return open_again
