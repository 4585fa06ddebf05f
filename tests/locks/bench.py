"""Two processes' locks on one store whose calls can be made to fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.locks.locks import Locks
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.testing.clock import TestClock

NOW = 1_800_000_000_000


class Faulty:
    """The locks of a store. `fault` says what happens to the next calls of a method: "before", "after" or "hang"."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fault: dict[str, str] = {}
        self.calls: list[str] = []

    @property
    def locks(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store.locks, name)

        async def call(*args: Any) -> Any:
            self.calls.append(name)
            fault = self.fault.get(name)
            if fault == "before":
                raise StoreUnavailable("test", "it is down")
            if fault == "hang":
                await asyncio.Event().wait()
            answer = await method(*args)
            if fault == "after":
                raise StoreUnavailable("test", "the reply was lost")
            return answer

        return call


class Bench:
    """Two processes' locks on one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.faulty = Faulty(store)
        self.events: list[Event] = []
        self.ours, self.theirs = self.locks("ours"), self.locks("theirs")

    def locks(self, owner: str, **options: Any) -> Locks:
        async def opened() -> Any:
            return self.faulty

        facts: dict[str, Any] = {
            "prefix": "lock", "default_ttl": timedelta(minutes=1), "retries": 0, "retry_delay": timedelta(0)
        }  # fmt: skip
        return Locks(opened, owner=owner, clock=self.clock, publish=self.events.append, **(facts | options))

    async def move(self, seconds: float) -> None:
        """Move the clock in small steps, with time for others to react to each."""
        assert isinstance(self.clock, TestClock)
        target = self.clock.now_ms() + round(seconds * 1000)
        while self.clock.now_ms() < target:
            self.clock.move_to(min(self.clock.now_ms() + 250, target))
            for _ in range(10):
                await asyncio.sleep(0)

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
