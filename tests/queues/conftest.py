"""Every test of the queues runs on each store that there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.queues.rig import Rig
from workfleet.clock import SystemClock
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    opened = await open_store(url, app="test", clock=SystemClock(), create=True)
    yield opened
    await opened.close()


@pytest.fixture
def rig(store: Store) -> Rig:
    return Rig(store)
