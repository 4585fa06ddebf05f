"""Starts the children of a pool, and follows each to its end. Knows nothing of places or of what follows a death."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from workfleet.errors import CallStuck, WorkfleetError
from workfleet.events import ChildDied, Event
from workfleet.pools import wire
from workfleet.pools.member import Floor, Member
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Exit, Spawn
from workfleet.pools.stats import LastExit
from workfleet.ports.clock import Clock

_SHOWN: Final = 4_000
"""How much of a child's last words an event carries."""


class Starter:
    """Makes members; `member.life` is done when the child is gone, its end told and its calls settled."""

    def __init__(
        self,
        spec: ChildSpec,
        options: PoolOptions,
        *,
        spawn: Spawn,
        clock: Clock,
        publish: Callable[[Event], None],
        on_output: OnOutput | None,
        trace: str | None = None,
    ) -> None:
        """`trace` is where calls that bring a trace along find, in the child, what they run in."""
        self._trace = trace
        self._spec = spec
        self._options = options
        self._spawn = spawn
        self._clock = clock
        self._publish = publish
        self._on_output = on_output

    async def start(self, label: str, slot: int, floor: Floor) -> Member:
        """A child that is not ready yet. Raises `OSError` where there is no process or descriptor to be had."""
        ears: list[Member] = []

        def hear(frames: list[wire.Frame]) -> None:
            ears[0].hear(frames)

        boot = self._boot()
        child = await self._spawn(label, hear, self._on_output)
        member = Member(slot, child, self._options, floor, self._clock)
        ears.append(member)
        member.boot(boot)
        member.life = asyncio.create_task(self._follow(member), name=f"{label} {child.pid}")
        return member

    def _boot(self) -> bytes:
        args = wire.encode(self._spec.args)
        path = os.environ.get("PYTHONPATH")
        options, trace = self._options, self._trace
        traced_as = options.name if options.tracing and trace is not None else None
        return wire.encode(
            (list(sys.path), path, self._spec.factory, args, options.address_space_bytes, trace, traced_as)
        )

    async def _follow(self, member: Member) -> None:
        ended: asyncio.Future[Any] = member.child.ended
        try:
            exit_ = await ended
        finally:  # also when the loop is torn down
            member.child.kill()
        if not member.asked:
            member.why = _cause(member, exit_)
        member.exit = LastExit(
            pid=member.child.pid,
            how=exit_.how,
            why=member.why,
            at_ms=self._clock.now_ms(),
            peak_bytes=exit_.peak_bytes,
        )
        if not member.asked or exit_.code != 0:
            self._tell_died(member, exit_)
        member.end(exit_)

    def _tell_died(self, member: Member, exit_: Exit) -> None:
        head = member.line.head
        self._publish(
            ChildDied(
                pool=self._options.name,
                pid=member.child.pid,
                how=exit_.how,
                why=member.why,
                cause=_category(member, exit_),
                method=head.method if head is not None else None,
                last_words=exit_.last_words[-_SHOWN:],
                peak_bytes=exit_.peak_bytes,
            )
        )


def _category(member: Member, exit_: Exit) -> str:
    """Few words, to count deaths by."""
    if member.stuck_ms is not None:
        return CallStuck.code
    doom = None if member.line.head is None else member.line.head.doom
    if isinstance(doom, WorkfleetError):
        return doom.code
    return "killed" if member.state == "stopping" and exit_.code == -signal.SIGKILL else "crashed"


def _cause(member: Member, exit_: Exit) -> str:
    """Why a child died unasked."""
    if member.state == "starting":
        where = f"{exit_.how} while {member.child.phase()}"
        return f"{member.why} ({where})" if member.why else where
    return f"{member.why} ({exit_.how})" if member.why else exit_.how
