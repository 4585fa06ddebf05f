"""Where calls wait for a child and are given one. The only owner of the count of calls in flight.

Calls are given out when they arrive, when a child has finished one and when a child becomes ready. It knows the ready
children, but starts and ends none. Which child, and in which order, is the routing's.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import islice
from typing import Final

from workfleet.errors import PoolBusy, PoolError
from workfleet.pools.calls import Call
from workfleet.pools.marks import Strategy
from workfleet.pools.member import Member
from workfleet.pools.pace import Pace
from workfleet.pools.routing import routing
from workfleet.pools.strategies import Draw

Reason = Callable[[], PoolError]

_SHORTEST_RETRY_MS: Final = 100
_LONGEST_RETRY_MS: Final = 30_000
_UNKNOWN_RETRY_MS: Final = 1_000
"""While no call was completed that would tell."""
_SAMPLE: Final = 32
"""How many of the waiting calls are looked at."""


class Desk:
    """The queue of one pool."""

    def __init__(self, pool: str, limit: int, strategy: Strategy = "least_busy", draw: Draw = random.random) -> None:
        self._pool = pool
        self._limit = limit
        self._members: list[Member] = []
        self._with: dict[int, Member] = {}
        self._pace = Pace()
        self._waiting = routing(strategy, self._members, self._pace, draw)
        self._refused: Reason | None = None
        self._closed: Reason | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._idle = True
        """Whether that is set: asking it would cost every call."""
        self.worked = asyncio.Event()
        """Set whenever a child is given a call."""

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @property
    def unfinished(self) -> int:
        """Calls that wait or run."""
        return len(self._waiting) + len(self._with)

    def waiting_ids(self) -> tuple[int, int] | None:
        """Of the waiting calls the oldest and the newest; None when none waits. Younger calls have greater ids."""
        lines = list(self._waiting.waiting())
        return (min(line[0].id for line in lines), max(line[-1].id for line in lines)) if lines else None

    def waiting_runs(self, most: int) -> tuple[str, ...]:
        """The runs for which calls wait, those that wait longest first; of very many only the first."""
        calls = heapq.merge(*self._waiting.waiting(), key=_age)
        return tuple(islice((call.run for call in calls if call.run), most))

    def places(self, numbers: Collection[int]) -> None:
        """The numbers of the places that the pool has, with or without a child at the moment."""
        self._waiting.places(numbers)
        self._give_out()

    async def wait_until_empty(self) -> None:
        await self._empty.wait()

    def open(self) -> None:
        self._refused = self._closed = None

    def refuse(self, reason: Reason) -> None:
        """No new calls: they raise this. Those that wait go on waiting."""
        self._refused = reason

    def close(self, reason: Reason) -> None:
        """No new calls, and those that wait for a child fail with this."""
        self._refused = self._closed = reason
        for call in self._waiting.clear():
            call.fail(reason())
        self._note_emptiness()

    def submit(self, call: Call) -> None:
        """Raises `PoolBusy` when too many wait, and what the desk was closed with."""
        if self._refused is not None:
            raise self._refused()
        member = self._waiting.offer(call)
        if member is not None:
            self._with[call.id] = member
            member.take(call)
            self.worked.set()
        elif self._waiting.wait(call, self._limit):
            if type(call.body) is not bytes:
                call.freeze()
        else:
            raise self._busy(call)
        if self._idle:
            self._idle = False
            self._empty.clear()

    def _busy(self, call: Call) -> PoolBusy:
        """With a guess: when half of those that wait before it have been served, at the mean pace of such calls."""
        line, children = self._waiting.ahead(call)
        mean_ms = self._pace.mean_ms([each.method for each, _ in zip(line, range(_SAMPLE), strict=False)])
        wait = _UNKNOWN_RETRY_MS if mean_ms is None else mean_ms * len(line) / max(children, 1) / 2
        retry_after_ms = int(min(max(wait, _SHORTEST_RETRY_MS), _LONGEST_RETRY_MS))
        return PoolBusy(self._pool, len(line), retry_after_ms)

    def _give_out(self, freed: Member | None = None) -> None:
        given = False
        while (following := self._waiting.next(freed)) is not None:
            call, member = following
            self._with[call.id] = member
            member.take(call)
            given = True
        if given:
            self.worked.set()

    def member_of(self, call: Call) -> Member | None:
        """The child that has the call."""
        return self._with.get(call.id)

    async def abandon(self, call: Call) -> None:
        """Nobody waits for it any more. Returns when no process works on it any more."""
        gone = call.abandon()
        member = self._with.get(call.id)
        if member is not None:
            member.line.abandon(call)
            await gone
        elif self._waiting.drop(call):
            self._note_emptiness()

    def join(self, member: Member) -> None:
        """A child that is ready."""
        self._members.append(member)
        self._give_out(member)

    def leave(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)

    def finished(self, member: Member, calls: list[Call], *, answered: bool) -> None:
        """These of the child's calls have ended: it has answered them, or it died."""
        took: defaultdict[str, list[int]] = defaultdict(list)
        for call in calls:
            del self._with[call.id]
            if call.micros is not None:
                took[call.method].append(call.micros)
        if answered:
            for method, micros in took.items():
                self._pace.took(method, *micros)
        if len(self._waiting):
            self._give_out(member)
        else:
            self._note_emptiness()

    def take_back(self, calls: list[Call]) -> None:
        """Calls that their child never began: they are the first again."""
        for call in reversed(calls):
            del self._with[call.id]
            if self._closed is None:
                self._waiting.wait_first(call)
            else:
                call.fail(self._closed())
        self._give_out()
        self._note_emptiness()

    def _note_emptiness(self) -> None:
        if not self._with and not len(self._waiting):
            self._idle = True
            self._empty.set()


def _age(call: Call) -> int:
    return call.id
