"""Doubles of pools: the real class, in this process, behind the same proxy; and a child that dies, takes too much
memory or too long when a test says so.

What goes in and out is copied as it would be on its way to a child and back, so that what cannot travel fails here too.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from workfleet.errors import CallTimeout, ChildDied, MemoryLimitExceeded, PayloadRejected, PoolError, UsageError
from workfleet.model.durations import DurationLike, SizeLike, duration_ms, size_bytes
from workfleet.pools import wire
from workfleet.pools.child_inline import illness, run_hooks
from workfleet.pools.child_target import Target
from workfleet.pools.failures import request
from workfleet.pools.options import PoolOptions
from workfleet.pools.parcel import Parcel
from workfleet.pools.stats import PoolStats
from workfleet.ports.clock import Clock

T = TypeVar("T")


class PoolDouble:
    """Serves a pool's calls with one object in this process, made at the first call, its start hooks run.

    `calls` are the methods that were called, in order; `served` is the object, None while there is none; `size` is what
    the application asked for. One call runs at a time for as long as it does not await.

    What is said to happen to "the next" call happens to one call each, in the order in which it was said; a new object
    serves the call after it.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Awaitable[object]],
        *,
        size: int = 1,
        options: PoolOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`options` are the pool's own, for its limits; `clock` is what `takes` counts by."""
        self.name, self.size = name, size
        self.served: object | None = None
        self.calls: list[str] = []
        self._make = make
        self.options = options or PoolOptions(name=name, size=size)
        self._clock = clock
        self._mishaps: list[Callable[[str], PoolError]] = []
        self._takes: dict[str | None, int] = {}

    def crash_next(self, *, signal: str = "SIGKILL") -> None:
        """The next call's child dies of this signal: the call raises `ChildDied`."""
        self._mishaps.append(lambda method: ChildDied(self.name, method, os.getpid(), f"signal {signal}"))

    def exceed_memory_next(self, *, used: SizeLike | None = None) -> None:
        """The next call's child holds so much memory, left out a little more than the pool's limit: the call raises
        `MemoryLimitExceeded`. Raises `UsageError` where that would not happen: no limit, or no more than it."""
        limit = self.options.memory_bytes
        if limit is None:
            raise UsageError(f"pool {self.name!r} has no memory limit that a call could exceed")
        size = limit + 1_000_000 if used is None else size_bytes(used)
        if size <= limit:
            raise UsageError(f"used={used!r} is within the memory limit of pool {self.name!r}, {limit / 1e6:g} MB")
        self._mishaps.append(lambda method: MemoryLimitExceeded(self.name, method, size, limit))

    def time_out_next(self) -> None:
        """The next call passes the pool's call timeout: it raises `CallTimeout`, at once. Raises `UsageError` where the
        pool has none. A handler that runs in a pool has its job's timeout instead: see `takes`."""
        limit_ms = self.options.call_timeout_ms
        if limit_ms is None:
            raise UsageError(f"pool {self.name!r} has no call timeout")
        self._mishaps.append(lambda method: CallTimeout(self.name, method, limit_ms))

    def takes(self, duration: DurationLike | None, *, method: str | None = None) -> None:
        """From now on each call, or each of this method, takes so long on the fleet's clock before it does what it
        does; None: no time again. One that takes longer than the pool's call timeout raises `CallTimeout` when that is
        over; a handler that takes longer than its job's timeout has timed out."""
        if self._clock is None:
            raise UsageError(f"pool {self.name!r} has no clock on which a call could take time")
        self._takes[method] = 0 if duration is None else duration_ms(duration)

    async def check_health(self) -> str | None:
        """Asks the object how it is, as a pool does now and then. Returns what its `@health_check` found wrong, and
        then it is stopped and a new one serves the next call; None when it is well or there is none."""
        ill = None if self.served is None else await illness(Target(self.served))
        if ill is not None:
            await self.aclose()
        return ill

    async def call(self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        return await self.run(method, lambda served: self._started(served, method, args, kwargs))

    async def stream(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        items = await self.run(method, lambda served: self._streamed(served, method, args, kwargs), copied=False)
        async for item in items:
            yield self._back(method, item)

    async def run(
        self,
        method: str,
        work: Callable[[object], Any],
        *,
        copied: bool = True,
        left_ms: int | None = None,
        time_out: Callable[[], bool] | None = None,
    ) -> Any:
        """One call: what a test has said happens to it, else `work` gets the served object.

        A handler has no call timeout: where it would take longer than `left_ms`, `time_out` is called then."""
        self.calls.append(method)
        served = await self._serve()
        if self._mishaps:
            self.served = None
            raise self._mishaps.pop(0)(method)
        try:
            if time_out is None:
                await self._take_time(method)
            else:
                await self._take_time_of_job(method, left_ms, time_out)
        except BaseException:  # whatever ends a call in the middle ends its child
            self.served = None
            raise
        made = work(served)
        value = await made if inspect.isawaitable(made) else made
        return self._back(method, value) if copied else value

    def stats(self) -> PoolStats:
        """Size, and how many calls there were."""
        return PoolStats(
            name=self.name,
            state="new" if self.served is None and not self.calls else "running",
            size=self.size,
            ready=self.size,
            busy=0,
            queued=0,
            calls=len(self.calls),
            failures=0,
            restarts=0,
            pids=(),
            children=(),
        )

    async def aclose(self) -> None:
        """Stop: the shutdown hooks of the object run, if there is one."""
        served, self.served = self.served, None
        if served is not None:
            await run_hooks(Target(served), "shutdown")

    async def _serve(self) -> object:
        if self.served is None:
            served = await self._make()
            await run_hooks(Target(served), "start")
            self.served = served
        return self.served

    def _ms(self, method: str) -> int:
        return self._takes.get(method, self._takes.get(None, 0))

    async def _take_time(self, method: str) -> None:
        ms, limit_ms = self._ms(method), self.options.call_timeout_ms
        if ms and self._clock is not None:
            await self._clock.sleep((ms if limit_ms is None else min(ms, limit_ms)) / 1000)
            if limit_ms is not None and ms > limit_ms:
                raise CallTimeout(self.name, method, limit_ms)

    async def _take_time_of_job(self, method: str, left_ms: int | None, time_out: Callable[[], bool]) -> None:
        ms = self._ms(method)
        if ms and self._clock is not None:
            await self._clock.sleep((ms if left_ms is None else min(ms, left_ms)) / 1000)
            if left_ms is not None and ms > left_ms and time_out():
                await self._clock.sleep(0)  # here the run is ended

    def _started(self, served: object, method: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        body = request(self.name, method, args, kwargs or {}, None)
        _, there_args, there_kwargs, _ = wire.decode(body.copied() if isinstance(body, Parcel) else body)
        return getattr(served, method)(*there_args, **there_kwargs)

    async def _streamed(
        self, served: object, method: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None
    ) -> AsyncIterator[Any]:
        made = self._started(served, method, args, kwargs)
        return made if isinstance(made, AsyncIterator) else _each(made)

    def _back(self, method: str, value: T) -> T:
        return travelled(value, f"result of {self.name}.{method}")


def travelled(value: T, what: str) -> T:
    """A copy, as if it had been sent to another process. Raises `PayloadRejected` for what cannot be."""
    try:
        copy: T = wire.decode(wire.encode(value))
    except Exception as error:  # pickling runs the value's own code
        kind = type(value).__qualname__
        raise PayloadRejected(what, "$", f"{kind} cannot be sent between processes: {error}") from error
    return copy


async def _each(items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item
