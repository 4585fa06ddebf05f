"""One child of a pool through its life: starting → ready → draining (its calls go on) → stopping (hooks) → gone.

Owns its deadlines. Decides nothing about replacement, and knows of calls only through its line.
"""

from __future__ import annotations

import asyncio
from typing import Literal, Protocol

from workfleet.errors import CallTimeout, ChildDied
from workfleet.pools import wire
from workfleet.pools.calls import NEVER, Call
from workfleet.pools.failures import unpack
from workfleet.pools.line import Line
from workfleet.pools.options import PoolOptions
from workfleet.pools.process import Child, Exit
from workfleet.ports.clock import Clock

State = Literal["starting", "ready", "draining", "stopping", "gone"]


class Floor(Protocol):
    """What a member tells its pool."""

    def joined(self, member: Member) -> None:
        """It is ready for calls."""
        ...

    def finished(self, member: Member, call: Call, micros: int, *, failed: bool) -> None: ...
    def give_back(self, member: Member, calls: list[Call]) -> None:
        """It is gone; these calls it never began, in their order."""
        ...

    def note(self, deadline: float) -> None: ...


class Member:
    """A child. `why` says why it ends, `asked` whether that was the pool's own doing."""

    def __init__(self, slot: int, child: Child, options: PoolOptions, floor: Floor, clock: Clock) -> None:
        self.slot = slot
        self.child = child
        self.started = clock.monotonic()
        self.state: State = "starting"
        self.calls = 0
        self.asked = False
        self.why = ""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.line = Line(
            options.name,
            clock,
            grace=options.cancel_grace_ms / 1000,
            send=child.send,
            ended=self._call_ended,
            note=floor.note,
        )
        self._options = options
        self._floor = floor
        self._clock = clock
        self._until = NEVER
        self._answer_until = NEVER

    def boot(self, body: bytes) -> None:
        """Tells the new child what to be. It must be ready within the start-up timeout."""
        self.child.send(wire.frame(wire.BOOT, 0, body))
        self._until = self._within(self._options.startup_timeout_ms)

    def _within(self, ms: int) -> float:
        deadline = self._clock.monotonic() + ms / 1000
        self._floor.note(deadline)
        return deadline

    def ping(self) -> None:
        """Asks how it is; it must answer within the health timeout."""
        if self._answer_until == NEVER:
            self.child.send(wire.frame(wire.PING, 0))
            self._answer_until = self._within(self._options.health_timeout_ms)

    def retire(self, why: str, *, asked: bool = True) -> None:
        """Ends it when the calls that it has are done, with its shutdown hooks."""
        if self.state == "starting":
            self.kill(why, asked=asked)
        elif self.state == "ready":
            self.why, self.asked, self.state = why, asked, "draining"
            self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        if self.state == "draining" and not len(self.line):
            self.state = "stopping"
            self.child.send(wire.frame(wire.STOP, 0))
            self._until = self._within(self._options.graceful_timeout_ms)

    def kill(self, why: str, doom: Exception | None = None, *, asked: bool = True) -> None:
        """Ends it at once. The call that runs fails with `doom`, else with how the child died."""
        if self.state == "gone":
            return
        if self.state != "stopping":
            self.why, self.asked, self.state = why, asked, "stopping"
        if doom is not None and self.line.head is not None:
            self.line.head.doom = doom
        self._until = self._answer_until = NEVER
        self.child.kill()

    def end(self, exit_: Exit) -> None:
        """It is gone: settles the calls that it had."""
        self.state = "gone"
        if not self.ready.done():
            self.ready.cancel()

        def death(call: Call) -> ChildDied:
            return ChildDied(self._options.name, call.method, self.child.pid, exit_.how, exit_.last_words)

        self._floor.give_back(self, self.line.break_up(self.child.begun(), death))

    def deadline(self) -> float:
        return NEVER if self.state == "gone" else min(self._until, self._answer_until, self.line.deadline())

    def expire(self) -> None:
        now, options, head = self._clock.monotonic(), self._options, self.line.head
        if head is not None and head.deadline <= now:
            head.deadline = NEVER
            if head.abandoned:
                self.kill(f"{head.method} was cancelled")
            else:
                timeout_ms = round((head.timeout or 0) * 1000)
                self.kill(f"{head.method} timed out", CallTimeout(options.name, head.method, timeout_ms))
        elif self._answer_until <= now:
            self.kill(f"did not answer a health check within {options.health_timeout_ms} ms", asked=False)
        elif self.state == "starting":
            within = f"was not ready within {options.startup_timeout_ms} ms, still {self.child.phase()}"
            self.kill(within, asked=False)
        else:
            self.why = f"did not stop within {options.graceful_timeout_ms} ms ({self.why})"
            self.kill(self.why)

    def hear(self, kind: int, call_id: int, number: int, body: memoryview) -> None:
        """What the child says."""
        if kind == wire.READY:
            self.line.kinds = wire.decode(body)
            if self.state == "starting":
                self.state, self._until = "ready", NEVER
                self.ready.set_result(None)
                self._floor.joined(self)
        elif kind == wire.UNFIT:
            self.why = f"could not be built: {unpack(body)!r}"
        elif kind == wire.PONG:
            self._answer_until = NEVER
            illness = wire.decode(body)
            if illness is not None:
                self.retire(f"is not healthy: {illness}", asked=False)
        else:
            self.line.hear(kind, call_id, number, body)

    def _call_ended(self, call: Call, micros: int, failed: bool) -> None:  # noqa: FBT001 - a callback's argument
        self.calls += 1
        self._floor.finished(self, call, micros, failed=failed)
        self._stop_if_idle()
