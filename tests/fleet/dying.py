"""Stores for a process that dies while it fires, and for the others, which come after it by their clocks."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workfleet.model.schedules import Fire, Fired
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.open import is_redis, open_store


async def by_own_clock(url: str, *, app: str, clock: Clock, create: bool) -> Store:
    """A store whose time is the process's clock, on Redis too."""
    if not is_redis(url):
        return await open_store(url, app=app, clock=clock, create=create)
    from workfleet.stores.redis.store import RedisStore

    return await RedisStore.open(url, app=app, clock=clock, test_now_ms=clock.now_ms)


async def never_firing(url: str, *, app: str, clock: Clock, create: bool) -> Store:
    """As `by_own_clock`; but a fire is never sent: a note says so, and the process does nothing any more."""
    store: Any = await by_own_clock(url, app=app, clock=clock, create=create)

    async def fire(fires: Sequence[Fire]) -> list[Fired]:
        (Path.cwd() / f"fires-{os.getpid()}").write_text(" ".join(f"{each.schedule}@{each.slot_ms}" for each in fires))
        while True:
            time.sleep(60)

    store.schedules.fire = fire
    opened: Store = store
    return opened
