"""One child of a pool through its life: starting → ready → draining (its calls go on) → stopping (hooks) → gone.

Owns its deadlines. Decides nothing about replacement, and knows of calls only through its line.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Final, Literal, Protocol

from workfleet.errors import CallStuck, CallTimeout, ChildDied, CpuTimeExceeded, PoolError, RemoteError
from workfleet.pools import wire
from workfleet.pools.calls import NEVER, Call
from workfleet.pools.failures import unpack
from workfleet.pools.line import Line
from workfleet.pools.marks import Isolation
from workfleet.pools.options import PoolOptions
from workfleet.pools.process import Child, Exit
from workfleet.pools.stats import LastExit
from workfleet.ports.clock import Clock

State = Literal["starting", "ready", "spent", "draining", "stopping", "gone"]
"""`spent`: it has had its calls and waits for its replacement; without one it would go on."""

_ENDED: Final[Mapping[Isolation, str]] = {
    "process": "its process was killed",
    "thread": "its thread is left to itself",
    "inline": "its task is cancelled",
}
"""What becomes of a call that passed its timeout."""
_AHEAD: Final = 10
"""A replacement is asked for when a tenth of the calls that a child may have is left."""


class Floor(Protocol):
    """What a member tells its pool."""

    def joined(self, member: Member) -> None:
        """It is ready for calls."""
        ...

    def finished(self, member: Member, calls: list[Call], failed: int) -> None:
        """These have ended, so many of them with an error."""
        ...

    def give_back(self, member: Member, calls: list[Call]) -> None:
        """It takes no more; these calls it never began, in their order."""
        ...

    def due(self, member: Member) -> None:
        """It should be followed by a warm child, for the reason in `member.due`."""
        ...

    def note(self, deadline: float) -> None: ...


class Member:
    """A child. `why` says why it ends, `asked` whether that was the pool's own doing, `planned` whether it lost nothing
    by it: it was recycled or not needed any more."""

    def __init__(self, slot: int, child: Child, options: PoolOptions, floor: Floor, clock: Clock) -> None:
        self.slot = slot
        self.child = child
        self._pid = child.pid
        self.started = clock.monotonic()
        self.started_ms = clock.now_ms()
        self.start_ms = 0
        """How long it took to be ready."""
        self.state: State = "starting"
        self.calls = 0
        self.heard = 0
        """How often it said something."""
        self.memory_bytes: int | None = None
        self.cpu_percent: float | None = None
        self.asked = False
        self.planned = False
        self.why = ""
        self.due = ""
        """Why it should be replaced."""
        self.last_words = ""
        self.exit: LastExit | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.life: asyncio.Task[None] | None = None
        """Done when it is gone and its calls are settled."""
        self.line = Line(
            options.name,
            clock,
            grace=options.cancel_grace_ms / 1000,
            send=child.send,
            memory=child.arguments,
            catch_up=child.catch_up,
            ended=self._calls_ended,
            other=self._hear_other,
            note=floor.note,
        )
        self._options = options
        self._floor = floor
        self._clock = clock
        self._until = NEVER
        self._answer_until = NEVER
        self._old_at = NEVER
        self._left = NEVER if options.max_calls is None else options.max_calls
        self.stuck_ms: int | None = None
        """Set when it was killed for making no progress for so long."""

    def boot(self, body: bytes) -> None:
        """Tells the new child what to be. It must be ready within the start-up timeout."""
        self.child.send(wire.frame(wire.BOOT, 0, body))
        # Counts from when the frame has left: it leaves at the end of this tick, and a blocked loop may hold it up.
        asyncio.get_running_loop().call_soon(self._await_ready)

    def _await_ready(self) -> None:
        if self.state == "starting":
            self._until = self._within(self._options.startup_timeout_ms)

    def _within(self, ms: float) -> float:
        deadline = self._clock.monotonic() + ms / 1000
        self._floor.note(deadline)
        return deadline

    def ping(self) -> None:
        """Asks how it is; it must answer within the health timeout."""
        if self._answer_until == NEVER:
            self.child.send(wire.frame(wire.PING, 0))
            self._answer_until = self._within(self._options.health_timeout_ms)

    def take(self, call: Call) -> None:
        """Another call. With its last one it is spent; shortly before that a replacement is asked for."""
        call.pid = self._pid
        if self._left == NEVER:
            self.line.append(call)
            return
        self._left -= 1
        if self._left <= 0:
            self.state = "spent"
        self.line.append(call)
        most = self._options.max_calls
        if most is not None and self._left <= most // _AHEAD:
            self.due = self.due or f"it has had its calls, {most} at most"
            self._floor.due(self)

    def age(self, ms: float) -> None:
        """From now on; then it is replaced."""
        self._old_at = self._within(ms)

    def _grow_old(self, now: float) -> None:
        self._old_at = NEVER
        self.retire(f"it is {now - self.started:.0f} s old")

    def retire(self, why: str) -> None:
        """Has it replaced: a warm child comes first. It works on until then, and for good if there cannot be one."""
        if not self.due and self.state in ("starting", "ready", "spent"):
            self.due = why
            self._floor.due(self)

    def resume(self) -> None:
        """There is no replacement: it goes on with calls beyond its number."""
        self._left = NEVER
        if self.state == "spent":
            self.state = "ready"

    def leave(self, why: str, *, asked: bool = True) -> None:
        """Ends it when the call that it runs is done, with its shutdown hooks. Calls sent ahead are given to others."""
        if self.state == "starting":
            self.kill(why, asked=asked, planned=asked)
        elif self.state in ("ready", "spent"):
            self.why, self.asked, self.planned, self.state = why, asked, asked, "draining"
            if len(self.line) > 1:
                self.child.halt()
            self._stop_if_idle()

    def _stop_if_idle(self) -> None:
        if self.state == "draining" and not len(self.line):
            self.state = "stopping"
            self.child.send(wire.frame(wire.STOP, 0))
            self._answer_until = NEVER
            self._until = self._within(self._options.graceful_timeout_ms)

    def kill(self, why: str, doom: Exception | None = None, *, asked: bool = True, planned: bool = False) -> None:
        """Ends it at once. The call that runs fails with `doom`, else with how the child died."""
        if self.state == "gone":
            return
        if self.state != "stopping":
            self.why, self.asked, self.state = why, asked, "stopping"
            self.planned = self.planned or planned
        if doom is not None and self.line.head is not None:
            self.line.head.doom = doom
        self._until = self._answer_until = self._old_at = NEVER
        self.child.kill()

    def kill_stuck(self, stuck_ms: int) -> None:
        """Ends it because its call makes no progress; that fails with `CallStuck`."""
        head = self.line.head
        self.stuck_ms = stuck_ms
        self.kill(f"{head.method if head else 'it'} made no progress for {stuck_ms / 1000:g} s")

    def end(self, exit_: Exit) -> None:
        """It is gone: settles the calls that it had."""
        self.state, self.last_words = "gone", exit_.last_words
        if not self.ready.done():
            self.ready.cancel()

        def death(call: Call) -> PoolError:
            pool, pid = self._options.name, self.child.pid
            if self.stuck_ms is not None:
                return CallStuck(pool, call.method, pid, self.stuck_ms, exit_.last_words)
            limit_ms = self._options.cpu_time_ms
            if limit_ms is not None and exit_.code == -signal.SIGXCPU:  # the system was faster than this process
                return CpuTimeExceeded(pool, call.method, limit_ms, limit_ms)
            return ChildDied(pool, call.method, pid, exit_.how, exit_.last_words, exit_.peak_bytes)

        self._floor.give_back(self, self.line.break_up(self.child.begun(), death))

    def deadline(self) -> float:
        if self.state == "gone":
            return NEVER
        return min(self._until, self._answer_until, self._old_at, self.line.deadline())

    def excuse(self, seconds: float) -> None:
        """This process was late by so much, and may have kept the child waiting: what is due is due that much later."""
        now = self._clock.monotonic()
        later = self._within(seconds * 1000)
        if self._until <= now:
            self._until = later
        if self._answer_until <= now:
            self._answer_until = later
        if (head := self.line.head) is not None and head.deadline <= now:
            head.deadline = later
        if self._old_at <= now:
            self._grow_old(now)

    def expire(self) -> None:
        self.line.catch_up()
        now, options, head = self._clock.monotonic(), self._options, self.line.head
        if self.deadline() > now:
            return
        if head is not None and head.deadline <= now:
            head.deadline = NEVER
            if head.abandoned:
                self.kill(f"{head.method} was cancelled")
            else:
                timeout_ms = round((head.timeout or 0) * 1000)
                ended = _ENDED[options.isolation]
                self.kill(f"{head.method} timed out", CallTimeout(options.name, head.method, timeout_ms, ended=ended))
        elif self._old_at <= now:
            self._grow_old(now)
        elif self._answer_until <= now:
            self.kill(f"did not answer a health check within {options.health_timeout_ms} ms", asked=False)
        elif self.state == "starting":
            within = f"was not ready within {options.startup_timeout_ms} ms, still {self.child.phase()}"
            self.kill(within, asked=False)
        else:
            self.why = f"did not stop within {options.graceful_timeout_ms} ms ({self.why})"
            self.kill(self.why)

    def hear(self, frames: list[wire.Frame]) -> None:
        """What the child says."""
        self.heard += 1
        self.line.hear(frames)

    def _hear_other(self, kind: int, call_id: int, body: wire.Heard) -> None:
        if kind == wire.READY:
            self.line.kinds = wire.decode(body)
            if self.state == "starting":
                self.state, self._until = "ready", NEVER
                self.start_ms = round((self._clock.monotonic() - self.started) * 1000)
                self.ready.set_result(None)
                self._floor.joined(self)
        elif kind == wire.UNBEGUN:
            self._floor.give_back(self, self.line.give_back(call_id))
            self._stop_if_idle()
        elif kind == wire.UNFIT:
            error = unpack(body)
            self.why = f"could not be built: {error if isinstance(error, RemoteError) else repr(error)}"
        elif kind == wire.PONG:
            self._answer_until = NEVER
            illness = wire.decode(body)
            if illness is not None:
                self.leave(f"is not healthy: {illness}", asked=False)

    def _calls_ended(self, calls: list[Call], failed: int) -> None:
        self.calls += len(calls)
        self._floor.finished(self, calls, failed)
        if not self.line.calls:
            self._stop_if_idle()
