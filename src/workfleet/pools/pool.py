"""A pool of processes: calls in, results out, whatever happens to the children. Wires the parts; each has its own file.

desk (queue) → member (a child and its line of calls) ← slot (one place) ← roster (all places, restarts), with the
services deadlines, memory and health beside them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from workfleet.errors import ConfigError, PoolError, Problem, UsageError
from workfleet.events import Event
from workfleet.pools import wire
from workfleet.pools.calls import Call, Items, Listener
from workfleet.pools.deadlines import Deadlines
from workfleet.pools.desk import Desk
from workfleet.pools.failures import request
from workfleet.pools.health import HealthCheck, Sweep
from workfleet.pools.member import Member
from workfleet.pools.memory import MemoryWatch
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Spawn, spawn
from workfleet.pools.restarts import Restarts
from workfleet.pools.roster import Roster
from workfleet.pools.slot import Slot
from workfleet.pools.stats import ChildStats, PoolState, PoolStats
from workfleet.ports.clock import Clock
from workfleet.supervision.service import Service, ServiceGroup


class _Default:
    """Left out: the pool's own."""


DEFAULT: Final = _Default()


class ProcessPool:
    """Runs the methods of `spec`'s object in `options.size` children. Make and use it on one loop.

    Every call ends: with the method's result or exception, or with `CallTimeout`, `MemoryLimitExceeded`, `ChildDied`,
    `PoolBusy`, `PoolFailed`, `PayloadRejected` or another `PoolError`. A call is given to one child and never repeated
    once its method was entered. Cancelling a call returns when no process works on it any more.
    """

    def __init__(
        self,
        spec: ChildSpec,
        options: PoolOptions,
        *,
        clock: Clock,
        publish: Callable[[Event], None],
        on_output: OnOutput | None = None,
        spawn: Spawn = spawn,
        draw: Callable[[], float] = random.random,
    ) -> None:
        _check(spec, options.name)
        self.name = options.name
        self.options = options
        self._clock = clock
        self._ids = count(1)
        self._draining = False
        self._desk = Desk(options.name, options.queue_limit)
        self._deadlines = Deadlines(clock)

        def make_slot(roster: Roster, number: int) -> Slot:
            return Slot(
                number,
                spec,
                options,
                floor=roster,
                verdicts=roster,
                spawn=spawn,
                clock=clock,
                publish=publish,
                on_output=on_output,
            )

        self._roster = Roster(
            options.name,
            self._desk,
            Restarts(options.restart, draw),
            make_slot=make_slot,
            now=clock.monotonic,
            note=self._deadlines.note,
            publish=publish,
        )
        self._services = ServiceGroup(f"pool {options.name}", self._make_services(), clock=clock, publish=publish)
        self._serving: asyncio.Task[None] | None = None

    def _make_services(self) -> list[Service]:
        options, members = self.options, self._roster.members
        self._deadlines.timed = members
        services: list[Service] = [self._deadlines]
        if options.soft_limit_bytes is not None:
            services.append(MemoryWatch(options, self._desk, members, self._clock))
        if options.health_interval_ms is not None:
            services.append(HealthCheck(options.health_interval_ms, members, self._clock))
        if options.sweep_interval_ms is not None:
            services.append(Sweep(options.sweep_interval_ms, members, self._clock))
        return services

    # Life.

    def start(self) -> None:
        """Starts the children if they are not, without waiting for them; the first call does it too."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._services.serve(), name=f"pool {self.name}")
            self._roster.scale(self.options.size)

    async def wait_ready(self) -> None:
        """Until every child is ready. Raises `PoolFailed` when they do not become so."""
        await self._roster.wait_ready()

    def scale(self, size: int) -> None:
        """Sets the number of children; those that go finish their calls first. A failed pool tries anew."""
        if size < 1:
            raise UsageError(f"pool {self.name!r} cannot have {size} children: at least 1")
        if self._serving is None or self._roster.state in ("stopping", "stopped"):
            raise PoolError(f"pool {self.name!r} does not run: it cannot be scaled")
        self._roster.scale(size)

    def recycle(self) -> None:
        """Replaces every child by a new one, each after its calls."""
        for member in self._roster.members():
            member.retire("recycled")

    async def drain(self, timeout_ms: int) -> int:
        """Takes no more calls and lets those that wait or run end. Returns how many have not, at the timeout."""
        self._draining = True
        self._desk.refuse(lambda: PoolError(f"pool {self.name!r} is draining: it takes no new calls"))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._desk.wait_until_empty()
        except TimeoutError:
            pass
        return self._desk.unfinished

    async def stop(self, timeout_ms: int) -> int:
        """Ends the pool: waiting calls fail, running ones may end, shutdown hooks run. Returns how many children were
        killed because they were not done at the timeout. None is left when it returns."""
        killed = await self._roster.stop(timeout_ms / 1000)
        if self._serving is not None:
            await self._services.stop(1_000)
            await self._serving
        return killed

    # Calls.

    async def call(
        self,
        method: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int | _Default | None = DEFAULT,
        context: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> Any:
        """Runs a method in a child. `context` is what `child_context.current().facts` is there; `listener` hears its
        log entries and progress. Left out, the timeout is the pool's; None is none."""
        call = self._make(method, args, kwargs or {}, timeout_ms, context, listener)
        self._desk.submit(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            await self._desk.abandon(call)
            raise

    async def stream(
        self,
        method: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int | _Default | None = DEFAULT,
        context: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> AsyncIterator[Any]:
        """Runs a generator in a child, at most a few items ahead of the consumer. The timeout is between two items."""
        call = self._make(method, args, kwargs or {}, timeout_ms, context, listener)
        call.items = Items(call, self._grant, self._arm)
        call.alone = True
        self._desk.submit(call)
        try:
            while True:
                try:
                    item = await call.items.next()
                except StopAsyncIteration:
                    return
                yield item
        finally:
            await self._desk.abandon(call)

    def _make(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_ms: int | _Default | None,
        context: Mapping[str, Any] | None,
        listener: Listener | None,
    ) -> Call:
        self.start()
        body = request(self.name, method, args, kwargs, context)
        timeout = self.options.call_timeout_ms if isinstance(timeout_ms, _Default) else timeout_ms
        # A call that is followed is a job: long enough that being sent ahead to a busy child could only delay it.
        return Call(
            next(self._ids),
            method,
            body,
            timeout=None if timeout is None else timeout / 1000,
            listener=listener,
            alone=context is not None or listener is not None,
        )

    def _grant(self, call: Call, room: int) -> None:
        if (member := self._desk.member_of(call)) is not None:
            member.line.grant(call, room)

    def _arm(self, call: Call) -> None:
        if (member := self._desk.member_of(call)) is not None:
            member.line.arm(call)

    # Facts.

    def stats(self) -> PoolStats:
        roster, members = self._roster, self._roster.members()
        return PoolStats(
            name=self.name,
            state=self._state(),
            size=roster.size,
            ready=roster.ready(),
            busy=sum(1 for member in members if len(member.line)),
            queued=self._desk.queued,
            calls=roster.calls,
            failures=roster.failures,
            restarts=roster.restarts,
            pids=tuple(member.child.pid for member in members),
            children=tuple(_child(member) for member in members),
            reason=roster.reason,
        )

    def _state(self) -> PoolState:
        roster = self._roster
        if roster.state != "running":
            return roster.state
        if self._draining:
            return "draining"
        ready = roster.ready()
        if ready >= roster.size:
            return "running"
        return "degraded" if ready else "starting"


def _check(spec: ChildSpec, pool: str) -> None:
    try:
        wire.encode(spec.args)
    except Exception as error:
        raise ConfigError(
            Problem(f"pool {pool}", f"its factory's arguments cannot be sent to a child: {error}")
        ) from error


def _child(member: Member) -> ChildStats:
    head = member.line.head
    state = "busy" if head is not None and member.state == "ready" else member.state
    return ChildStats(
        slot=member.slot,
        pid=member.child.pid,
        state=state,
        calls=member.calls,
        method=head.method if head is not None else None,
    )
