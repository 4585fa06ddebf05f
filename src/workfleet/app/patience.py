"""Opening a store that is down just now: a worker waits for it, as it would later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, StoreTrouble
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store

_FIRST_S, _LONGEST_S = 0.1, 5.0


class Patience:
    """Opens as `open_store` does, and tries again while it may help. Once `over` is done it gives up, and raises what
    the last attempt did."""

    def __init__(self, over: asyncio.Future[Any], publish: Callable[[Event], None]) -> None:
        self._over, self._publish = over, publish

    async def open(self, url: str, *, app: str, clock: Clock, create: bool) -> Store:
        """Raises `ConfigError`, and `StoreUnavailable` for what does not pass by itself."""
        longest, told = _FIRST_S, False
        while True:
            try:
                return await self._writable(url, app=app, clock=clock, create=create)
            except StoreUnavailable as error:
                if not error.passing or self._over.done():
                    raise
                if not told:
                    self._publish(StoreTrouble(what="opening the store", error=str(error)))
                told = True
            # Full jitter: a fleet that waits for its server does not come all at once.
            pause = asyncio.ensure_future(clock.sleep(random.uniform(0, longest)))
            waits: set[asyncio.Future[Any]] = {pause, self._over}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            pause.cancel()
            longest = min(longest * 2, _LONGEST_S)

    @staticmethod
    async def _writable(url: str, *, app: str, clock: Clock, create: bool) -> Store:
        """An open store that takes what a start writes: one that is full answers, and refuses."""
        store = await open_store(url, app=app, clock=clock, create=create)
        try:
            await store.check()
        except BaseException:
            await store.close()
            raise
        return store
