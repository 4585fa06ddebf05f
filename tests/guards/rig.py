"""Guards around plain functions: real locks, keys and metrics on a store in memory, and a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from msgspec import Struct

from workfleet.app.compile import around
from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.guards.build import Site, Tools, build_guards
from workfleet.guards.refusing import Place
from workfleet.locks.locks import Locks
from workfleet.model.declared import guards_of, unwrap
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.ports.guards import Call
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock


class Point(Struct):
    x: int


NOW = 1_800_000_000_000


class FaultyKeys:
    """The store's keys; a method fails while its name is in `down`, and is another one where `replaced` says so."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys
        self.down: set[str] = set()
        self.calls: list[str] = []
        self.replaced: dict[str, Callable[..., Awaitable[Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        method = self.replaced.get(name) or getattr(self._keys, name)

        async def call(*args: Any) -> Any:
            self.calls.append(name)
            await asyncio.sleep(0)  # as on any wire, others may come in between
            if name in self.down:
                raise StoreUnavailable("test", "it is down")
            return await method(*args)

        return call


class Guards:
    """Makes guarded calls of decorated functions, as one process of a fleet does."""

    def __init__(self, store: Store, clock: Any, owner: str = "worker-1") -> None:
        self.store, self.clock = store, clock
        self.events: list[Event] = []
        self.spans: list[str] = []
        self.span_facts: list[Mapping[str, object]] = []
        self.metrics = MetricsRegistry()
        self.keys = FaultyKeys(store.keys)

        async def opened() -> Store:
            return store

        self.locks = Locks(
            opened,
            owner=owner,
            clock=clock,
            publish=self.events.append,
            prefix="lock",
            default_ttl=timedelta(minutes=1),
            retries=1,
            retry_delay=timedelta(seconds=1),
        )

    @classmethod
    async def on_memory(cls) -> Guards:
        clock = TestClock(NOW)
        return cls(await open_store("memory://", app="test", clock=clock, create=True), clock)

    def another(self, owner: str = "worker-2") -> Guards:
        """Another process on the same store."""
        return Guards(self.store, self.clock, owner)

    def bind(
        self,
        fn: Any,
        parameters: Sequence[str] = ("job_id",),
        result: Any = Any,
        place: Place = "method",
        label: str | None = None,
    ) -> Callable[..., Awaitable[Any]]:
        """The function inside its guards. Its parameters are given by name."""
        plain = unwrap(fn)
        tools = Tools(
            locks=self.locks,
            keys=self.keys,  # type: ignore[arg-type]
            now_ms=self.store.now_ms,
            metrics=self.metrics,
            clock=self.clock,
            publish=self.events.append,
            span=self._span,
            draw=lambda: 0.5,
        )
        name = label or plain.__name__
        guards = build_guards(guards_of(plain), Site(name, parameters, result, place), tools)

        async def call(**values: Any) -> Any:
            return await around(guards, Call(name, values), lambda: plain(**values))

        return call

    def told(self, *kinds: type[Event]) -> list[str]:
        """The wire names of the events of these kinds, in order."""
        return [event.wire_name for event in self.events if isinstance(event, kinds)]

    async def move(self, seconds: float) -> None:
        """Move the clock in small steps, with time for others to react to each."""
        target = self.clock.now_ms() + round(seconds * 1000)
        while self.clock.now_ms() < target:
            self.clock.move_to(min(self.clock.now_ms() + 250, target))
            for _ in range(10):
                await asyncio.sleep(0)

    @contextmanager
    def _span(
        self,
        name: str,
        attributes: Mapping[str, object] | None = None,
        *,
        consumes: bool = False,
        parent: str | None = None,
    ) -> Iterator[None]:
        self.spans.append(f"begin {name}")
        self.span_facts.append({**(attributes or {}), "consumes": consumes, "parent": parent})
        try:
            yield
        finally:
            self.spans.append(f"end {name}")
