"""`@rate_limit`: at most so many calls in a time, in each process or in the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from workfleet.errors import RateLimited, StoreUnavailable
from workfleet.events import CallLimited, Event
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed
from workfleet.templates import Template

from .outage import Outage
from .promises import Promises
from .refusing import Place, refusal
from .shared import SharedValues
from .starts import Starts, Window

_SWEPT_AT = 1_000


class Takes(Protocol):
    """Takes a place in the window of a name: 0, or in how many milliseconds the next one is free."""

    def __call__(self, name: str, /) -> Awaitable[int]: ...


class OwnWindows:
    """The windows of this process."""

    def __init__(self, window: Window, clock: Clock) -> None:
        self._window, self._clock = window, clock
        self._starts: dict[str, Starts] = {}
        self._sweep_at = _SWEPT_AT

    async def __call__(self, name: str, /) -> int:
        starts, wait_ms = self._window.take(self._starts.get(name, ()), self._now_ms())
        self._keep(name, starts)
        return wait_ms

    def note(self, name: str) -> None:
        """A start that the fleet's window had a place for."""
        now_ms = self._now_ms()
        self._keep(name, self._window.add(self._window.live(self._starts.get(name, ()), now_ms), now_ms))

    def _keep(self, name: str, starts: Starts) -> None:
        self._starts[name] = starts
        if len(self._starts) > self._sweep_at:
            now_ms = self._now_ms()
            self._starts = {key: kept for key, kept in self._starts.items() if self._window.live(kept, now_ms)}
            self._sweep_at = max(_SWEPT_AT, 2 * len(self._starts))

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)


class FleetWindows:
    """The windows of the fleet, in the store and by its time. While the store is away, each process goes by the calls
    that it has made itself."""

    def __init__(self, window: Window, values: SharedValues, own: OwnWindows, outage: Outage) -> None:
        self._window, self._values, self._own, self._outage = window, values, own, outage

    async def __call__(self, name: str, /) -> int:
        def decide(there: bytes | None, now_ms: int) -> tuple[bytes | None, int]:
            starts, wait_ms = self._window.take(_decoded(there), now_ms)
            return None if wait_ms else msgspec.json.encode(starts), wait_ms

        try:
            wait_ms = await self._values.change(f"rate {name}", 2 * self._window.per_ms, decide)
        except StoreUnavailable as error:
            self._outage.began(error)
            return await self._own(name)
        self._outage.over()
        if wait_ms == 0:
            self._own.note(name)
        return wait_ms


def _decoded(there: bytes | None) -> Starts:
    try:
        return () if there is None else msgspec.json.decode(there, type=Starts)
    except msgspec.DecodeError:
        return ()  # of another release: calls must not stop because of that


@dataclass
class _Line:
    """Who of this process wants a place of one window, in the order of coming."""

    waiting: dict[object, None] = field(default_factory=dict)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the window is asked, so that the calls of a process never race each other."""
    again_ms: int = 0
    """When the first of them tries again."""


class RateLimit:
    """A guard. With a `key` each of its values has its own limit. Who waits does so in the order in which he came."""

    def __init__(
        self,
        name: str,
        window: Window,
        takes: Takes,
        place: Place,
        *,
        key: Template | None,
        waits: bool,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._name, self._window, self._takes, self._place = name, window, takes, place
        self._key, self._waits, self._clock, self._publish = key, waits, clock, publish
        self._promises = Promises(window, clock)
        self._lines: dict[str, _Line] = {}

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        name = self._name if self._key is None else f"{self._name} {self._key.fill(call.values)}"
        line, me = self._lines.setdefault(name, _Line()), object()
        line.waiting[me] = None
        try:
            while (wait_ms := await self._try(name, line, me)) > 0:
                if not self._waits:
                    raise self._refused(name, wait_ms)
                await self._clock.sleep(wait_ms / 1000)
        finally:
            del line.waiting[me]
            if not line.waiting:
                del self._lines[name]
        return await proceed()

    async def _try(self, name: str, line: _Line, me: object) -> int:
        """Take a place: 0, or in how many milliseconds to try again. Who waits takes none before those ahead of him."""
        async with line.asking:
            now_ms = round(self._clock.monotonic() * 1000)
            if self._waits and next(iter(line.waiting)) is not me:
                return max(line.again_ms - now_ms, 1)
            wait_ms = await self._takes(name)
            line.again_ms = now_ms + wait_ms
            return wait_ms

    def _refused(self, name: str, wait_ms: int) -> BaseException:
        if self._place == "run":
            wait_ms = self._promises.wait_ms(name, wait_ms)
        self._publish(CallLimited(name=name, retry_after_ms=wait_ms))
        return refusal(RateLimited(name, self._window.limit, self._window.per_ms, wait_ms), self._place)
