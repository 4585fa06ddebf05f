"""One place in a pool: keeps one child in it, replaces it when it ends, until the place is given up. A service.

When a child dies, the place decides when the next is started; a child that is due for recycling is followed by a warm
one that somebody else has started. What a child does in between is the member's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from workfleet.events import ChildReplaced, ChildStarted, Event
from workfleet.pools.member import Floor, Member
from workfleet.pools.starter import Starter
from workfleet.pools.stats import LastExit
from workfleet.ports.clock import Clock


class Verdicts(Protocol):
    """Who decides what follows a death."""

    def died(self, slot: int, started: float, how: str, last_words: str, *, ready: bool) -> float | None:
        """Unasked. Seconds until the next start; None: there is none."""
        ...

    def lost(self, slot: int) -> None:
        """A child of this place has ended unplanned, asked or not, and will be replaced."""
        ...


class Slot:
    """`member` is the child that is there now; `leaving` those before it that end their calls."""

    def __init__(
        self,
        name: str,
        number: int,
        *,
        starter: Starter,
        floor: Floor,
        verdicts: Verdicts,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self.name = f"{name}#{number}"
        self.number = number
        self.member: Member | None = None
        self.leaving: set[Member] = set()
        self.wanted = True
        self.restarts = 0
        self.last_exit: LastExit | None = None
        self._pool = name
        self._starter = starter
        self._floor = floor
        self._verdicts = verdicts
        self._clock = clock
        self._publish = publish
        self._rest: asyncio.Task[None] | None = None
        self._successor: asyncio.Future[Member] | None = None

    async def serve(self) -> None:
        """Returns when the place is given up and the last child of it is gone."""
        try:
            await self._keep_filled()
        finally:
            if self.leaving:
                await asyncio.wait({member.life for member in self.leaving if member.life is not None})

    async def _keep_filled(self) -> None:
        before: Member | None = None
        while self.wanted:
            started = self._clock.monotonic()
            try:
                member = await self._starter.start(self.name, self.number, self._floor)
            except OSError as error:  # no process or descriptor to be had: a death like any other
                self.restarts += 1
                wait = self._verdicts.died(self.number, started, f"it could not be started: {error}", "", ready=False)
            else:
                if not self.wanted:
                    member.kill("no longer wanted", planned=True)
                before = await self._keep(member, before)
                wait = self._judge(before)
            if wait is None:
                return
            await self._pause(wait)

    def _judge(self, member: Member) -> float | None:
        wait = 0.0
        if not member.asked:
            ready = member.ready.done() and not member.ready.cancelled()
            verdict = self._verdicts.died(self.number, member.started, member.why, member.last_words, ready=ready)
            if verdict is None:
                return None
            self.restarts += 1
            wait = verdict
        if not member.planned:
            self._verdicts.lost(self.number)
        return wait

    async def _keep(self, member: Member, before: Member | None) -> Member:
        """Until the child is gone, or the one that has followed it, and so on. Gives the last."""
        while True:
            self.member = member
            self._successor = asyncio.get_running_loop().create_future()
            assert member.life is not None
            ends: set[asyncio.Future[Any]] = {member.life, self._successor}
            await asyncio.wait({member.ready, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if member.ready.done() and not member.ready.cancelled():
                self._tell_started(member, before)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not self._successor.done():
                self.member, self._successor = None, None
                member.life.result()
                self.last_exit = member.exit
                return member
            before, member = member, self._successor.result()

    def take_over(self, successor: Member) -> None:
        """A warm child takes this place; the one that is there ends its calls."""
        old, following = self.member, self._successor
        assert old is not None
        assert old.life is not None
        assert following is not None
        self.leaving.add(old)

        def gone(life: asyncio.Task[None]) -> None:
            self.leaving.discard(old)
            self.last_exit = old.exit

        old.life.add_done_callback(gone)
        successor.slot = self.number
        self.member = successor
        following.set_result(successor)
        old.leave(old.due)

    def _tell_started(self, member: Member, before: Member | None) -> None:
        pid = member.child.pid
        self._publish(ChildStarted(pool=self._pool, pid=pid, slot=self.number, duration_ms=member.start_ms))
        if before is not None:
            self._publish(ChildReplaced(pool=self._pool, pid=pid, old_pid=before.child.pid, why=before.why))

    async def _pause(self, seconds: float) -> None:
        if seconds > 0 and self.wanted:
            self._rest = asyncio.ensure_future(self._clock.sleep(seconds))
            try:
                await asyncio.wait({self._rest})
            finally:
                self._rest.cancel()

    def give_up(self, why: str) -> None:
        """No child in this place any more; the one that is there ends its calls first."""
        self.wanted = False
        if self._rest is not None:
            self._rest.cancel()
        if self.member is not None:
            self.member.leave(why)
