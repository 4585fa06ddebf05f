"""A pool of processes: calls in, results out, whatever happens to the children. Wires the parts; each has its own file.

caller (makes calls) → desk (queue) → member (a child and its line of calls) ← slot (one place) ← roster (all places,
restarts), with the services deadlines, memory and health beside them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from workfleet.errors import ConfigError, PoolError, Problem, UsageError
from workfleet.events import ChildDied, Event, PoolCpuLimited
from workfleet.pools import wire
from workfleet.pools.autoscale import Autoscaler, Load
from workfleet.pools.caller import DEFAULT, Caller, Default
from workfleet.pools.calls import Carry, Listener
from workfleet.pools.cpu_share import confined, share_of
from workfleet.pools.deadlines import Deadlines
from workfleet.pools.desk import Desk
from workfleet.pools.health import HealthCheck, Sweep
from workfleet.pools.keys import MethodKeys
from workfleet.pools.limits import LimitsWatch
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Spawn, spawn
from workfleet.pools.roster import Roster
from workfleet.pools.starter import Starter
from workfleet.pools.stats import PoolState, PoolStats
from workfleet.pools.stuck import StuckWatch
from workfleet.pools.tally import Tally
from workfleet.ports.clock import Clock
from workfleet.ports.spans import CallTracing
from workfleet.supervision.service import Service, ServiceGroup

_MOST_RUNS: Final = 100
"""How many of those for which calls wait are told by name."""


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
        keys: MethodKeys | None = None,
        trace: CallTracing | None = None,
        carry: Carry | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`keys` are what calls are routed by with `strategy="consistent_hash"`, `trace` takes the
        current trace to the children, with a span for each call where the options ask for that; `carry` is asked at
        each call what else goes along."""
        _check(spec, options.name)
        self.name = options.name
        self.options = options
        self._clock = clock
        self._publish = publish
        self._draining = False
        self.tally = Tally() if options.metrics else None
        """What was counted of the calls."""
        self._desk = Desk(options.name, options.queue_limit, options.strategy, draw)
        self._deadlines = Deadlines(clock)
        self._share = None if options.cpu_cores is None else share_of(options.name, options.cpu_cores)
        spawn = confined(spawn, self._share, self._desk.worked.set)
        inside = None if trace is None else trace.inside
        starter = Starter(
            spec, options, spawn=spawn, clock=clock, publish=self._tell, on_output=on_output, trace=inside
        )
        self._roster = Roster(
            options, self._desk, starter, clock=clock, draw=draw, note=self._deadlines.note, publish=publish
        )
        self._services = ServiceGroup(f"pool {options.name}", self._make_services(), clock=clock, publish=publish)
        self._serving: asyncio.Task[None] | None = None
        self._caller = Caller(
            options, self._desk, clock=clock, start=self.start, keys=keys, trace=trace, tally=self.tally, carry=carry
        )

    def _tell(self, event: Event) -> None:
        if self.tally is not None and isinstance(event, ChildDied):
            self.tally.died(event.cause)
        self._publish(event)

    def _make_services(self) -> list[Service]:
        options, members = self.options, self._roster.members
        self._deadlines.timed = members
        services: list[Service] = [self._deadlines, self._roster.recycler]
        if options.isolation == "process":
            services.append(LimitsWatch(options, self._desk, members, self._clock))
        if options.health_interval_ms is not None:
            services.append(HealthCheck(options.health_interval_ms, members, self._clock))
        if options.sweep_interval_ms is not None:
            services.append(Sweep(options.sweep_interval_ms, members, self._clock))
        if options.stuck_after_ms is not None and options.isolation == "process":
            services.append(StuckWatch(options.stuck_after_ms, options, members, self._clock))
        if options.min_size is not None and options.max_size is not None:
            least, most = options.min_size, options.max_size
            services.append(Autoscaler(least, most, self._load, self._roster.scale, self._clock))
        return services

    # Life.

    def start(self) -> None:
        """Starts the children if they are not, without waiting for them; the first call does it too."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._services.serve(), name=f"pool {self.name}")
            if self._share is not None and (cores := self.options.cpu_cores) is not None:
                self._publish(PoolCpuLimited(pool=self.name, cores=cores, by=self._share.by))
            self._roster.scale(self.options.size)

    async def wait_ready(self) -> None:
        """Until every child is ready. Raises `PoolFailed` when they do not become so."""
        await self._roster.wait_ready()

    def scale(self, size: int) -> None:
        """Sets the number of children; those that go finish their calls first. A failed pool tries anew.

        Raises `UsageError` below 1, and outside of the bounds of a pool that scales itself; between them it goes on
        from this size.
        """
        check_size(self.options, size)
        if self._serving is None or self._roster.state in ("stopping", "stopped"):
            raise PoolError(f"pool {self.name!r} does not run: it cannot be scaled")
        self._roster.scale(size)

    def recycle(self) -> None:
        """Replaces every child by a new one that is ready before it goes, one after another, each after its calls. A
        failed pool tries anew."""
        self._roster.recycle()

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

    def call(
        self,
        method: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int | Default | None = DEFAULT,
        context: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Runs a method in a child; awaited, it is. `context` is what `child_context.current().facts` is there;
        `listener` hears its log entries and progress. Left out, the timeout is the pool's; None is none.

        Large arguments are copied when the call is awaited, or was to wait for a child: later changes do not matter."""
        return self._caller.call(method, args, kwargs, timeout_ms, context, listener)

    def call_as(
        self, shown: str, method: str, args: Sequence[Any], *, timeout_ms: int | None, listener: Listener
    ) -> Coroutine[Any, Any, Any]:
        """The same for a method behind which there are many things: `shown` is what errors, figures and listings call
        it. It must be no method's name."""
        return self._caller.call_as(shown, method, args, timeout_ms, listener)

    def stream(
        self,
        method: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int | Default | None = DEFAULT,
        context: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> AsyncIterator[Any]:
        """Runs a generator in a child, at most a few items ahead of the consumer. The timeout is between two items."""
        return self._caller.stream(method, args, kwargs, timeout_ms, context, listener)

    # Facts.

    def _load(self) -> Load | None:
        roster = self._roster
        if roster.state != "running" or self._draining:
            return None
        busy = sum(1 for member in roster.members() if len(member.line))
        return Load(roster.size, roster.ready(), busy, self._desk.queued, self._desk.waiting_ids())

    def stats(self) -> PoolStats:
        roster, members = self._roster, self._roster.members()
        return PoolStats(
            name=self.name,
            state=self._state(),
            size=roster.size,
            ready=roster.able(),
            busy=sum(1 for member in members if len(member.line)),
            queued=self._desk.queued,
            waiting_runs=self._desk.waiting_runs(_MOST_RUNS),
            calls=roster.calls,
            failures=roster.failures,
            restarts=roster.restarts,
            pids=tuple(member.child.pid for member in members),
            recycled=roster.recycler.recycled,
            children=roster.children(),
            reason=roster.reason,
            cpu_by=self._share.by if self._share is not None else "",
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


def check_size(options: PoolOptions, size: int) -> None:
    """Raises `UsageError` for a size that the pool cannot be given."""
    least, most = options.min_size, options.max_size
    if size < 1:
        raise UsageError(f"pool {options.name!r} cannot have {size} children: at least 1")
    if least is not None and most is not None and not least <= size <= most:
        bounds = f"min_size={least} and max_size={most}"
        raise UsageError(f"pool {options.name!r} scales itself between {bounds}: it cannot have {size} children")


def _check(spec: ChildSpec, pool: str) -> None:
    try:
        wire.encode(spec.args)
    except Exception as error:
        raise ConfigError(
            Problem(f"pool {pool}", f"its factory's arguments cannot be sent to a child: {error}")
        ) from error
