"""The caller's side of a pool: makes calls, gives them to the desk, waits for what becomes of them, and counts it.

It knows of children only through the desk, and decides nothing about them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from functools import partial
from itertools import count
from typing import Any, Final, cast

from workfleet.pools.calls import Call, Carry, Items, Listener
from workfleet.pools.child_trace import SHOWN, TRACEPARENT
from workfleet.pools.desk import Desk
from workfleet.pools.failures import request
from workfleet.pools.keys import MethodKeys
from workfleet.pools.options import PoolOptions
from workfleet.pools.tally import Tally
from workfleet.ports.clock import Clock
from workfleet.ports.spans import BegunCall, CallTracing


class Default:
    """Left out: the pool's own."""


DEFAULT: Final = Default()
_PID: Final = "workfleet.child.pid"
_NO_NAMES: Final[Mapping[str, Any]] = {}


class Caller:
    """Every call that it makes ends as `ProcessPool` says."""

    def __init__(
        self,
        options: PoolOptions,
        desk: Desk,
        *,
        clock: Clock,
        start: Callable[[], None],
        keys: MethodKeys | None,
        trace: CallTracing | None,
        tally: Tally | None,
        carry: Carry | None = None,
    ) -> None:
        """`start` starts the pool if it is not; the first call asks for it. The others: see `ProcessPool`."""
        self._name = options.name
        self._options = options
        self._desk = desk
        self._clock = clock
        self._start = start
        self._keys = keys
        self._trace = trace
        self._carry = carry
        self._tally = tally
        self._ids = count(1)
        self._timeout = None if options.call_timeout_ms is None else options.call_timeout_ms / 1000
        self._future: Callable[[], asyncio.Future[Any]] = self._first_future

    def _first_future(self) -> asyncio.Future[Any]:
        self._start()
        self._future = asyncio.get_running_loop().create_future
        return self._future()

    def call(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        timeout_ms: int | Default | None,
        context: Mapping[str, Any] | None,
        listener: Listener | None,
    ) -> Coroutine[Any, Any, Any]:
        if self._trace is None:
            return self._run(self._make(method, args, kwargs, timeout_ms, context, listener, None))
        if not self._options.tracing:
            return self._run(self._make(method, args, kwargs, timeout_ms, context, listener, self._trace.current()))
        make = partial(self._make, method, args, kwargs, timeout_ms, context, listener)
        return self._run_traced(method, make, self._trace)

    def call_as(
        self, shown: str, method: str, args: Sequence[Any], timeout_ms: int | None, listener: Listener
    ) -> Coroutine[Any, Any, Any]:
        def named(trace: str | None) -> Call:
            context = None if trace is None else {SHOWN: shown}
            call = self._make(method, args, None, timeout_ms, context, listener, trace)
            call.method = shown
            return call

        if self._trace is None:
            return self._run(named(None))
        if not self._options.tracing:
            return self._run(named(self._trace.current()))
        return self._run_traced(shown, named, self._trace)

    async def _run_traced(self, method: str, make: Callable[[str | None], Call], tracing: CallTracing) -> Any:
        with self._span(method, tracing) as begun:
            call = make(begun.trace)
            try:
                return await self._run(call)
            finally:
                begun.note(_PID, call.pid)

    def _span(self, method: str, tracing: CallTracing) -> AbstractContextManager[BegunCall]:
        return tracing.begin(f"{self._name}.{method}", {"workfleet.pool": self._name, "workfleet.method": method})

    async def _run(self, call: Call) -> Any:
        tally = self._tally
        try:
            self._desk.submit(call)
            value = await call.future
        except BaseException as error:
            if tally is not None:
                tally.ended(call, error)
            if isinstance(error, asyncio.CancelledError):
                await self._desk.abandon(call)
            raise
        if tally is not None:
            tally.completed(call)
        return value

    async def stream(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        timeout_ms: int | Default | None,
        context: Mapping[str, Any] | None,
        listener: Listener | None,
    ) -> AsyncIterator[Any]:
        make = partial(self._make, method, args, kwargs, timeout_ms, context, listener)
        if self._trace is None or not self._options.tracing:
            call = make(None if self._trace is None else self._trace.current())
            async with aclosing(self._items(call)) as found:
                async for item in found:
                    yield item
            return
        with self._span(method, self._trace) as begun:
            call = make(begun.trace)
            try:
                async with aclosing(self._items(call)) as found:
                    async for item in found:
                        yield item
            finally:
                begun.note(_PID, call.pid)

    async def _items(self, call: Call) -> AsyncGenerator[Any]:
        call.items = items = Items(call, self._grant, self._arm)
        call.alone = True
        tally = self._tally
        try:
            self._desk.submit(call)
            while True:
                try:
                    item = await items.next()
                except StopAsyncIteration:
                    break
                yield item
        except BaseException as error:
            if tally is not None:
                tally.ended(call, error)
            raise
        finally:
            await self._desk.abandon(call)
        if tally is not None:
            tally.completed(call)

    def _make(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None,
        timeout_ms: int | Default | None,
        context: Mapping[str, Any] | None,
        listener: Listener | None,
        trace: str | None,
    ) -> Call:
        facts = context if trace is None else {**(context or {}), TRACEPARENT: trace}
        carried = None if self._carry is None else self._carry()
        if carried is not None:
            facts = {**(facts or {}), **carried.facts}
        body = request(self._name, method, args, kwargs or _NO_NAMES, facts)
        timeout = self._timeout
        if timeout_ms is not DEFAULT:
            timeout = None if timeout_ms is None else cast(int, timeout_ms) / 1000
        # A call that is followed is a job: long enough that being sent ahead to a busy child could only delay it.
        call = Call(
            next(self._ids),
            method,
            body,
            timeout=timeout,
            listener=listener if carried is None else listener or carried.listener,
            alone=context is not None or listener is not None,
            future=self._future(),
        )
        if self._tally is not None and not call.id % self._tally.stride:
            call.made = self._clock.monotonic()
        if carried is not None:
            call.run = carried.run
        if self._keys is not None:
            call.key = self._keys.of(method, args, kwargs or _NO_NAMES)
        return call

    def _grant(self, call: Call, room: int) -> None:
        if (member := self._desk.member_of(call)) is not None:
            member.line.grant(call, room)

    def _arm(self, call: Call) -> None:
        if (member := self._desk.member_of(call)) is not None:
            member.line.arm(call)
