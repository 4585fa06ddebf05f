"""What a worker tells its store of its pools, and what an operator orders them to do. Must not know how it travels."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from workfleet.errors import NotFound, PoolError, UsageError
from workfleet.events import Event, PoolOrdered, PoolOrderRefused
from workfleet.model.fleet import ChildReport, PoolOrder, PoolReport
from workfleet.pools.options import PoolOptions
from workfleet.pools.registry import Pools
from workfleet.pools.stats import ChildStats, LastExit, PoolStats

_MOST_CHILDREN = 32
"""Of each pool, so that a record stays small whatever its pools' sizes are."""
_REMEMBERED = 100
_SHORT = 200
"""How much of a reason a record carries."""


class PoolOrders:
    """Carries out each order once, also one that is heard again because the answer to it was lost."""

    def __init__(self, pools: Pools, publish: Callable[[Event], None]) -> None:
        self._pools, self._publish = pools, publish
        self._done: deque[str] = deque(maxlen=_REMEMBERED)
        self._heard: tuple[PoolOrder, ...] = ()

    def reports(self) -> tuple[PoolReport, ...]:
        """The pools as they are now."""
        return reports_of(self._pools)

    @property
    def obeyed(self) -> tuple[str, ...]:
        """The orders that were carried out and that the store still has."""
        return tuple(order.id for order in self._heard if order.id in self._done)

    async def hear(self, orders: tuple[PoolOrder, ...]) -> bool:
        """The record has these. Whether any of them was new."""
        self._heard = orders
        new = [order for order in orders if order.id not in self._done]
        for order in new:
            self._done.append(order.id)
            await self._obey(order)
        return bool(new)

    async def _obey(self, order: PoolOrder) -> None:
        what = f"scale to {order.size}" if order.verb == "scale" else order.verb
        try:
            if order.verb == "scale":
                await self._pools.scale(order.pool, order.size or 0)
            else:
                await self._pools.recycle(order.pool)
        except (NotFound, PoolError, UsageError) as error:
            self._publish(PoolOrderRefused(pool=order.pool, order=what, reason=str(error)))
        else:
            self._publish(PoolOrdered(pool=order.pool, order=what))


def reports_of(pools: Pools) -> tuple[PoolReport, ...]:
    """Every pool as it is now, those that were not started yet included."""
    return tuple(_report(stats, pools.get(name).options) for name, stats in pools.stats().items())


def _report(stats: PoolStats, options: PoolOptions) -> PoolReport:
    """A pool's facts, few enough for a record."""
    return PoolReport(
        name=stats.name,
        state=stats.state,
        size=stats.size,
        isolation=options.isolation,
        min_size=options.min_size,
        max_size=options.max_size,
        ready=stats.ready,
        busy=stats.busy,
        queued=stats.queued,
        waiting=stats.waiting_runs,
        calls=stats.calls,
        failures=stats.failures,
        restarts=stats.restarts,
        cpu=f"{options.cpu_cores:g} cores by {stats.cpu_by}" if options.cpu_cores and stats.cpu_by else "",
        reason=stats.reason[:_SHORT],
        children=tuple(map(_child, _first(stats.children))),
        unlisted=max(len(stats.children) - _MOST_CHILDREN, 0),
    )


def _first(children: Iterable[ChildStats]) -> list[ChildStats]:
    return sorted(children, key=lambda child: (child.slot is None, child.slot or 0))[:_MOST_CHILDREN]


def _child(child: ChildStats) -> ChildReport:
    return ChildReport(
        slot=child.slot,
        pid=child.pid,
        state=child.state,
        calls=child.calls,
        method=child.method,
        memory_bytes=child.memory_bytes,
        cpu_percent=child.cpu_percent,
        age_ms=child.age_ms,
        restarts=child.restarts,
        last_exit=None if child.last_exit is None else _in_words(child.last_exit),
    )


def _in_words(exit_: LastExit) -> str:
    """How it ended and what led to it, which often says both."""
    told = exit_.why if exit_.how in exit_.why else f"{exit_.how}: {exit_.why}" if exit_.why else exit_.how
    return told[:_SHORT]
