"""The SQLite store and the one in memory give the same answers over random histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store
from workfleet.testing.contracts import Opener
from workfleet.testing.contracts.machine import compare


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    async def open_file(app: str, clock: Clock) -> Store:
        return await open_store(f"sqlite://{tmp_path}/store.db", app=app, clock=clock, create=True)

    return open_file


def test_histories(opener: Opener) -> None:
    compare(opener, examples=30)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_many_long_histories(opener: Opener) -> None:
    compare(opener, examples=500, steps=60, random=True)
