"""Victims that never end a phase of their lives: the first child of all, or each until it is let go."""

from __future__ import annotations

import os
from pathlib import Path

from tests.pools.kills.victims import Victim, for_ever
from workfleet.pools.declare import on_shutdown, on_start


def first_to(folder: str, what: str) -> bool:
    """Whether nobody else has asked before; then its pid is in the file of that name."""
    path = Path(folder) / what
    try:
        with path.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True


class SlowStart(Victim):
    """The first child of all never ends its @on_start."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @on_start
    def wait(self) -> None:
        if first_to(self.folder, "mark"):
            for_ever()


class SlowStop(Victim):
    """Never ends its @on_shutdown, until the file `free` is there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @on_shutdown
    def wait(self) -> None:
        if not (Path(self.folder) / "free").exists():
            (Path(self.folder) / f"stopping-{os.getpid()}").touch()
            for_ever()


def slow_start(folder: str) -> SlowStart:
    return SlowStart(folder)


def slow_stop(folder: str) -> SlowStop:
    return SlowStop(folder)


def slow_building(folder: str) -> Victim:
    """The first child of all never ends being built."""
    if first_to(folder, "mark"):
        for_ever()
    return Victim()


def slow_once_armed(folder: str) -> Victim:
    """The first child that is made while the file `armed` is there never ends being built."""
    if (Path(folder) / "armed").exists() and first_to(folder, "mark"):
        for_ever()
    return Victim()
