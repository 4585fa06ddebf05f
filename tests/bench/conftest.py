"""No test of the harness installs anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import environments
from bench.environments import Pip


@pytest.fixture(autouse=True)
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Environments are made in a folder of the test; installing notes its name and makes the folder."""
    made: list[str] = []

    def install(self: Pip, home: Path) -> None:
        made.append(self.name)
        home.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(environments, "HOME", tmp_path / "venvs")
    monkeypatch.setattr(Pip, "install", install)
    return made
