"""`Jobs` and `Queues` on every store, with a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.queues.acting.steps import NOW, given
from workfleet.ports.stores import Store
from workfleet.queues.jobs import Jobs
from workfleet.queues.queues import Queues
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock


@pytest.fixture
def clock() -> TestClock:
    return TestClock(NOW)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, clock: TestClock, tmp_path: Path) -> AsyncIterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    opened = await open_store(url, app="test", clock=clock, create=True)
    yield opened
    await opened.close()


@pytest.fixture
def jobs(store: Store, clock: TestClock) -> Jobs:
    return Jobs(lambda: given(store), clock)


@pytest.fixture
def queues(store: Store) -> Queues:
    return Queues(lambda: given(store))
