"""What the tests of this folder share: a made pool, and waiting for an event with a deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil

from workfleet.events import Event
from workfleet.pools.pool import ProcessPool

E = TypeVar("E", bound=Event)


class Made(NamedTuple):
    """A pool, what it published and what its children printed."""

    pool: ProcessPool
    events: list[Event]
    lines: list[tuple[str, str]]

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


async def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Looks every few milliseconds; fails at the deadline."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("it did not come true in time")
        await asyncio.sleep(0.005)


async def begun(mark: Path) -> int:
    """Waits until the method that makes this file has begun; the pid of its child."""
    await wait_until(lambda: mark.exists() and bool(mark.read_text()))
    return int(mark.read_text())


def runs(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
