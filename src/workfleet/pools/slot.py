"""One place in a pool: keeps one child in it, replaces it when it ends, until the place is given up. A service.

Starting and restarting are here; what a child does in between is the member's.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from workfleet.events import ChildDied, ChildReplaced, ChildStarted, Event
from workfleet.pools import wire
from workfleet.pools.member import Floor, Member
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Exit, Spawn
from workfleet.ports.clock import Clock

_SHOWN: Final = 4_000
"""How much of a child's last words an event carries."""


class Verdicts(Protocol):
    """Who decides what follows a death."""

    def died(self, slot: int, started: float, how: str) -> float | None:
        """Seconds until the next start; None: there is none."""
        ...


class Slot:
    """`member` is the child that is there now."""

    def __init__(
        self,
        number: int,
        spec: ChildSpec,
        options: PoolOptions,
        *,
        floor: Floor,
        verdicts: Verdicts,
        spawn: Spawn,
        clock: Clock,
        publish: Callable[[Event], None],
        on_output: OnOutput | None,
    ) -> None:
        self.name = f"{options.name}#{number}"
        self.number = number
        self.member: Member | None = None
        self._spec = spec
        self._options = options
        self._floor = floor
        self._verdicts = verdicts
        self._spawn = spawn
        self._clock = clock
        self._publish = publish
        self._on_output = on_output
        self.wanted = True
        self._rest: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Returns when the place is given up."""
        before: Member | None = None
        while self.wanted:
            started = self._clock.monotonic()
            try:
                member = await self._start()
            except OSError as error:  # no process or descriptor to be had: a death like any other
                wait = self._verdicts.died(self.number, started, f"it could not be started: {error}")
            else:
                await self._live(member, before)
                before = member
                wait = 0.0 if member.asked else self._verdicts.died(self.number, started, member.why)
            if wait is None:
                return
            await self._pause(wait)

    async def _start(self) -> Member:
        ears: list[Member] = []

        def hear(kind: int, call_id: int, number: int, body: memoryview) -> None:
            ears[0].hear(kind, call_id, number, body)

        boot = self._boot()
        child = await self._spawn(self.name, hear, self._on_output)
        member = Member(self.number, child, self._options, self._floor, self._clock)
        ears.append(member)
        member.boot(boot)
        self.member = member
        return member

    def _boot(self) -> bytes:
        args = wire.encode(self._spec.args)
        return wire.encode((list(sys.path), os.environ.get("PYTHONPATH"), self._spec.factory, args))

    async def _live(self, member: Member, before: Member | None) -> None:
        """Until the child is gone and its calls are settled."""
        if not self.wanted:
            member.kill("no longer wanted")
        ended = member.child.ended
        try:
            first: list[asyncio.Future[Any]] = [member.ready, ended]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if member.ready.done():
                self._tell_started(member, before)
            exit_ = await ended
        finally:  # also when the loop is torn down
            member.child.kill()
        self.member = None
        if not member.asked:
            member.why = _cause(member, exit_)
        if not member.asked or exit_.code != 0:
            self._tell_died(member, exit_)
        member.end(exit_)

    def _tell_started(self, member: Member, before: Member | None) -> None:
        took = round((self._clock.monotonic() - member.started) * 1000)
        pool, pid = self._options.name, member.child.pid
        self._publish(ChildStarted(pool=pool, pid=pid, slot=self.number, duration_ms=took))
        if before is not None:
            self._publish(ChildReplaced(pool=pool, pid=pid, old_pid=before.child.pid, why=before.why))

    def _tell_died(self, member: Member, exit_: Exit) -> None:
        self._publish(
            ChildDied(
                pool=self._options.name,
                pid=member.child.pid,
                how=exit_.how,
                why=member.why,
                method=member.line.head.method if member.line.head is not None else None,
                last_words=exit_.last_words[-_SHOWN:],
            )
        )

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
            self.member.retire(why)


def _cause(member: Member, exit_: Exit) -> str:
    """Why a child died unasked."""
    if member.state == "starting":
        where = f"{exit_.how} while {member.child.phase()}"
        return f"{member.why} ({where})" if member.why else where
    return f"{member.why} ({exit_.how})" if member.why else exit_.how
