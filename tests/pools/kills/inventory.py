"""What this process holds: descriptors and shared memory by kind, and which processes descend from it."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import psutil


class Inventory(NamedTuple):
    """Taken before and after something, both must be equal. Linux tells kinds; elsewhere they are only counted."""

    descriptors: dict[str, int]
    shared: dict[str, int]
    """Mapped memory that other processes may see, by what backs it."""
    children: int
    """Descendants that run."""
    zombies: int


def taken(foreign: Collection[int] = ()) -> Inventory:
    """`foreign`: processes that other tests have started, and may end."""
    gc.collect()  # what is only waiting for the collector was given back
    states = [_status(process) for process in psutil.Process().children(recursive=True) if process.pid not in foreign]
    zombies = states.count(psutil.STATUS_ZOMBIE)
    gone = states.count(None)
    return Inventory(_descriptors(), _shared(), len(states) - zombies - gone, zombies)


def descendants() -> set[int]:
    return {process.pid for process in psutil.Process().children(recursive=True)}


def _status(process: psutil.Process) -> str | None:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return None


def _descriptors() -> dict[str, int]:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        return {"all": psutil.Process().num_fds()}
    kinds: Counter[str] = Counter()
    for number in os.listdir(folder):
        try:
            target = os.readlink(folder / number)
        except FileNotFoundError:  # the one that listed the folder
            continue
        kinds[target.split(":[")[0]] += 1
    return dict(kinds)


def _shared() -> dict[str, int]:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return {}
    fields = [line.split(maxsplit=5) for line in maps.read_text().splitlines()]
    return dict(Counter(" ".join(each[5:]).split(":")[0] or "anonymous" for each in fields if each[1].endswith("s")))
