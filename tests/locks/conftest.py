"""Benches for the tests of locks: on each store, and on a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.locks.bench import NOW, Bench
from workfleet.clock import SystemClock
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock


@pytest.fixture(params=["memory", "sqlite"])
async def real(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """On each store, in real time."""
    clock = SystemClock()
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    store = await open_store(url, app="test", clock=clock, create=True)
    yield Bench(store, clock)
    await store.close()


@pytest.fixture
async def bench() -> Bench:
    """In memory, on a clock that the test moves."""
    clock = TestClock(NOW)
    return Bench(await open_store("memory://", app="test", clock=clock, create=True), clock)
