"""Fleets that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.supervision.fleet import ScriptedFleet

StartFleet = Callable[..., ScriptedFleet]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartFleet]:
    started: list[ScriptedFleet] = []

    def start_fleet(**given: object) -> ScriptedFleet:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        fleet = ScriptedFleet(folder, **given)  # type: ignore[arg-type]
        started.append(fleet)
        return fleet

    yield start_fleet
    for fleet in started:
        fleet.end()
