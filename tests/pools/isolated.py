"""What pools of threads and inline pools serve in the tests: objects that tell what happens to them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

from tests.pools.support import wait_until
from workfleet.clock import SystemClock
from workfleet.events import Event
from workfleet.pools.declare import health_check, on_shutdown, on_start, process, public
from workfleet.pools.isolation import spawner
from workfleet.pools.marks import Isolation
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import spawn


class Shared:
    """What the objects of one pool tell a test, and what a test holds them up with."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gate = threading.Event()
        self.ill = False
        self.made: list[Helper] = []


@process("helper")
class Helper:
    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.thread = threading.get_ident()
        shared.made.append(self)

    @on_start
    async def start(self) -> None:
        self.shared.log.append("start")

    @on_shutdown
    def stop(self) -> None:
        self.shared.log.append("stop")

    @health_check
    def check(self) -> bool:
        return not self.shared.ill

    @public
    def where(self) -> tuple[int, int, int]:
        return os.getpid(), self.thread, threading.get_ident()

    @public
    async def awhere(self) -> tuple[int, int]:
        await asyncio.sleep(0)
        return threading.get_ident(), id(asyncio.get_running_loop())

    @public
    def append(self, items: list[object]) -> list[object]:
        items.append("more")
        return items

    @public
    def hold(self) -> str:
        self.shared.log.append("held")
        self.shared.gate.wait(60)
        self.shared.log.append("let go")
        return "late"

    @public
    async def ahold(self) -> str:
        self.shared.log.append("held")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.shared.log.append("cancelled")
            raise
        return "late"

    @public
    def block(self, seconds: float) -> str:
        time.sleep(seconds)
        return "done"

    @public
    def numbers(self, count: int) -> Iterator[int]:
        try:
            for number in range(count):
                self.shared.log.append(f"made {number}")
                yield number
        finally:
            self.shared.log.append("closed")

    @public
    async def anumbers(self, count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    @public
    def exit(self) -> None:
        raise SystemExit(3)

    @public
    def unsendable(self) -> object:
        return threading.Lock()


class Made:
    """A pool of helpers."""

    def __init__(
        self,
        kind: Isolation,
        build: Callable[[Shared], Any] = Helper,
        *,
        unmet: Exception | None = None,
        **options: Any,
    ) -> None:
        """`unmet` is raised where the object's arguments are got."""
        self.shared, self.events = Shared(), list[Event]()

        async def recipe() -> Callable[[], object]:
            if unmet is not None:
                self.shared.log.append("asked")
                raise unmet
            return partial(build, self.shared)

        self.pool = ProcessPool(
            ChildSpec("nowhere:nothing"),
            PoolOptions(**{"name": "helper", "size": 1, "isolation": kind, "stuck_after_ms": None, **options}),
            clock=SystemClock(),
            publish=self.events.append,
            spawn=spawner(kind, recipe, spawn),
        )
        self.pool.start()

    def told(self, kind: type[Event]) -> int:
        return sum(1 for event in self.events if isinstance(event, kind))

    async def __aenter__(self) -> Made:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.shared.gate.set()
        await self.pool.stop(5_000)
        await wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("helper#")])
