"""Where calls wait for a child and are given one. The only owner of the count of calls in flight.

Calls are given out when they arrive, when a child has finished one and when a child becomes ready. It knows the ready
children, but starts and ends none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from workfleet.errors import PoolBusy, PoolError
from workfleet.pools.calls import Call
from workfleet.pools.member import Member
from workfleet.pools.pace import Pace

Reason = Callable[[], PoolError]

_SHORTEST_RETRY_MS: Final = 100
_LONGEST_RETRY_MS: Final = 30_000


class Desk:
    """The queue of one pool."""

    def __init__(self, pool: str, limit: int) -> None:
        self._pool = pool
        self._limit = limit
        self._queue: deque[Call] = deque()
        self._members: list[Member] = []
        self._with: dict[int, Member] = {}
        self._pace = Pace()
        self._refused: Reason | None = None
        self._closed: Reason | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self.worked = asyncio.Event()
        """Set whenever a child is given a call."""

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def unfinished(self) -> int:
        """Calls that wait or run."""
        return len(self._queue) + len(self._with)

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
        queue, self._queue = self._queue, deque()
        for call in queue:
            call.fail(reason())
        self._note_emptiness()

    def submit(self, call: Call) -> None:
        """Raises `PoolBusy` when too many wait, and what the desk was closed with."""
        if self._refused is not None:
            raise self._refused()
        member = self._choose(call) if not self._queue else None
        if member is not None:
            self._give(call, member)
        elif len(self._queue) < self._limit:
            self._queue.append(call)
        else:
            raise PoolBusy(self._pool, self._limit, self._retry_after_ms())
        self._empty.clear()

    def _retry_after_ms(self) -> int:
        """A guess: when half of those that wait have been served at the mean pace so far."""
        wait = self._pace.mean_ms() * len(self._queue) / max(len(self._members), 1) / 2
        return int(min(max(wait, _SHORTEST_RETRY_MS), _LONGEST_RETRY_MS))

    def _choose(self, call: Call) -> Member | None:
        """The child with the fewest calls, if it may have another."""
        best: Member | None = None
        for member in self._members:
            if member.state == "ready" and (best is None or len(member.line) < len(best.line)):
                best = member
        if best is None or not len(best.line):
            return best
        head = best.line.head
        if call.alone or head is None or head.alone or len(best.line) >= self._pace.line(head.method):
            return None
        return best if len(best.line) < self._pace.line(call.method) else None

    def _give(self, call: Call, member: Member) -> None:
        self._with[call.id] = member
        if not self.worked.is_set():
            self.worked.set()
        member.line.append(call)

    def _give_out(self) -> None:
        while self._queue:
            member = self._choose(self._queue[0])
            if member is None:
                return
            self._give(self._queue.popleft(), member)

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
        elif call in self._queue:
            self._queue.remove(call)
            self._note_emptiness()

    def join(self, member: Member) -> None:
        """A child that is ready."""
        self._members.append(member)
        self._give_out()

    def leave(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)

    def finished(self, call: Call, micros: int | None) -> None:
        """`micros` is what it took; None when its child died."""
        self._with.pop(call.id, None)
        if micros is not None:
            self._pace.took(call.method, micros)
        self._give_out()
        self._note_emptiness()

    def take_back(self, calls: list[Call]) -> None:
        """Calls that their child never began: they are the first again."""
        for call in reversed(calls):
            del self._with[call.id]
            if self._closed is None:
                self._queue.appendleft(call)
            else:
                call.fail(self._closed())
        self._give_out()
        self._note_emptiness()

    def _note_emptiness(self) -> None:
        if not self.unfinished:
            self._empty.set()
