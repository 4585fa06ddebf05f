"""Finds children at work that make no progress, and ends them. A service.

Progress is whatever can be seen without the child's cooperation, so that one that works is never taken for stuck: it
has begun another call, said something (an item, a log line, progress), used processor time, itself or in programs that
it started, or the loop of its async call has turned. What is left is a child that waits for something that never comes,
or was stopped. How long it waits is measured in looks, so that the time in which this process itself stood still does
not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from workfleet.pools.calls import Call
from workfleet.pools.member import Member
from workfleet.pools.options import PoolOptions
from workfleet.ports.clock import Clock
from workfleet.supervision import proc

_LOOKS: Final = 4
"""How often, at least, a child is looked at before it is called stuck."""
_EVERY_MS: Final = 30_000
"""Where a pool has no sweep."""
_LEAST_MS: Final = 50
"""Oftener would only burn the processor."""
_DUMP_WITHIN: Final = 0.5
"""How long a stuck child has for writing its stacks."""


class _Signs(NamedTuple):
    """What changes when there is progress."""

    call: int
    begun: int
    heard: int
    beats: int


class _Watched:
    """A child at work since it last made progress."""

    def __init__(self, signs: _Signs) -> None:
        self.signs = signs
        self.work: object = None
        self.seconds = 0.0


def work_of(pid: int) -> tuple[int, int] | None:
    """Processor time in milliseconds of a process and its descendants, and how many these are; None when it is gone."""
    own = proc.cpu(pid)
    below = proc.descendants(pid)
    theirs = [cpu.own for cpu in map(proc.cpu, below) if cpu is not None]
    return None if own is None else (round(own.total + sum(theirs)), len(below))


class StuckWatch:
    """`measure` gives what changes while a process works."""

    def __init__(
        self,
        stuck_after_ms: int,
        options: PoolOptions,
        members: Callable[[], Iterable[Member]],
        clock: Clock,
        measure: Callable[[int], object] = work_of,
    ) -> None:
        self.name = f"stuck children of pool {options.name}"
        self._after_ms = stuck_after_ms
        every_ms = min(options.sweep_interval_ms or _EVERY_MS, stuck_after_ms / _LOOKS)
        self._every = max(every_ms, _LEAST_MS) / 1000
        self._members = members
        self._clock = clock
        self._measure = measure
        self._watched: dict[Member, _Watched] = {}

    async def serve(self) -> None:
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(self._every)
            stuck = self._look(min(self._clock.monotonic() - before, 2 * self._every))
            if stuck:
                await self._end(stuck)

    def _look(self, passed: float) -> list[Member]:
        """Those that are stuck, after so many seconds more."""
        watched: dict[Member, _Watched] = {}
        for member in self._members():
            if (head := member.line.head) is None or _waits_for_consumer(head):
                continue
            there, signs = self._watched.get(member), _signs(member, head)
            if there is None or there.signs != signs:
                watched[member] = _Watched(signs)  # measuring its work can wait until it must be known
                continue
            watched[member] = there
            work = self._measure(member.child.pid)
            there.seconds = there.seconds + passed if work == there.work else 0.0
            there.work = work
        self._watched = watched
        return [member for member, there in watched.items() if there.seconds * 1000 >= self._after_ms]

    async def _end(self, stuck: list[Member]) -> None:
        for member in stuck:
            member.child.dump()
        await self._clock.sleep(_DUMP_WITHIN)
        for member in stuck:
            head = member.line.head
            if head is not None and _signs(member, head) == self._watched[member].signs:  # else it went on just now
                member.kill_stuck(self._after_ms)


def _signs(member: Member, head: Call) -> _Signs:
    return _Signs(head.id, member.child.begun(), member.heard, member.child.beats())


def _waits_for_consumer(call: Call) -> bool:
    """A stream goes on when its consumer asks for more."""
    return call.items is not None and not call.items.wanted
