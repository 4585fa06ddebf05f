"""One life of one worker process: how it is started, what it has said, how it can be ended, how it did end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable

import msgspec

from workfleet.app.judging import LATE_BEAT_MS
from workfleet.app.status import WorkerState, WorkerStatus
from workfleet.ids import new_token
from workfleet.model.fleet import Instruction
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Sample
from workfleet.supervision.board import Board
from workfleet.supervision.control import (
    ORDER_VARIABLE,
    Beat,
    Bye,
    Drain,
    FromSupervisor,
    FromWorker,
    Hello,
    Kept,
    Measured,
    Ready,
    Refused,
    Told,
    WorkerOrder,
)
from workfleet.supervision.link import SupervisorEnd
from workfleet.supervision.stacks import EVERY_THREAD, MAIN_THREAD, Stacks

from .children import Child, Children
from .options import SupervisorOptions

_CONFIG_EXIT = 78
_UNKILLABLE_S = 10.0
_SHOWN = 5


class WorkerProcess:
    """A worker from its start until it is closed. `on_message` is called after each message has been taken in."""

    def __init__(
        self,
        options: SupervisorOptions,
        children: Children,
        clock: Clock,
        *,
        index: int,
        restarts: int,
        on_message: Callable[[WorkerProcess, FromWorker], None],
    ) -> None:
        """Start the process. Raises OSError when the machine cannot."""
        self.id = f"{socket.gethostname()}-{os.getpid()}-{index}-{new_token()[:8]}"
        self.index, self.restarts = index, restarts
        self._clock, self._on_message = clock, on_message
        self.hello: Hello | None = None
        self.beat: Beat | None = None
        self.bye: Bye | None = None
        self.refused: Refused | None = None
        self.measured: list[Sample] | None = None
        """What it has measured, as it said last, at the instant `measured_at`."""
        self.measured_at = 0.0
        self.kept = 0
        """Up to which number it has stored what it was given of metrics."""
        self.ready = False
        self.stuck: str | None = None
        """Why it is taken for stuck."""
        self.killed: str | None = None
        """Why the supervisor killed it."""
        self._killed_at = 0.0
        self.over = asyncio.Event()
        """It has said its last word."""
        self.instruction: Instruction | None = None
        """What an operator told it last."""
        self.dismissed = asyncio.Event()
        """It was told to stop, or to be started anew. This is not taken back."""
        self.started_at = clock.monotonic()
        self._beat_at: float | None = None
        self._draining = False
        self.board = Board.create(slots=options.board_slots, clock=clock)
        self._stacks = Stacks()
        try:
            self.child, self._link, self._lifeline = self._start(options, children)
        except OSError:
            self.board.close()
            self._stacks.close()
            raise

    def _start(self, options: SupervisorOptions, children: Children) -> tuple[Child, SupervisorEnd, int]:
        ours, theirs = socket.socketpair()
        their_lifeline, our_lifeline = os.pipe()
        order = WorkerOrder(
            app=options.app,
            worker_id=self.id,
            index=self.index,
            processes=options.processes,
            restarts=self.restarts,
            supervisor_pid=os.getpid(),
            board_fd=self.board.fd,
            control_fd=theirs.fileno(),
            lifeline_fd=their_lifeline,
            stacks_fd=self._stacks.fd,
            until_idle=options.until_idle,
            queues=options.queues,
            config=options.config,
        )
        environ = {**os.environ, **options.environ, ORDER_VARIABLE: msgspec.json.encode(order).decode()}
        inherited = (self.board.fd, theirs.fileno(), their_lifeline, self._stacks.fd)
        try:
            child = children.start(options.worker_command, environ, inherited)
        except OSError:
            os.close(our_lifeline)
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(their_lifeline)
        return child, SupervisorEnd(ours, self._hear), our_lifeline

    def send(self, message: FromSupervisor) -> None:
        self._link.send(message)

    def drain(self, timeout_ms: int) -> None:
        """Ask it to stop. One that has not said anything yet has claimed nothing, and need not be waited for."""
        if self.hello is None:
            self.kill("it was told to stop while it started")
        else:
            self._draining = True
            self.send(Drain(timeout_ms=timeout_ms))

    def dump(self, *, every_thread: bool) -> None:
        """Ask it for its stacks, which `stacks` then has; that of the main thread does a process no harm."""
        self.child.signal(EVERY_THREAD if every_thread else MAIN_THREAD)

    def stacks(self) -> str:
        """What it has written of its stacks since this was asked last."""
        return self._stacks.take()

    def running(self) -> list[str]:
        """The names and ids of the jobs that it holds, the newest first: what blocks it has begun late."""
        jobs = [entry for entry in self.board.entries() if entry.kind == "job"]
        return [job.shown for job in sorted(jobs, key=lambda job: (job.noted_ms, job.sequence), reverse=True)]

    @property
    def still_s(self) -> float:
        """For how long its loop has made no progress; 0 while it does not beat yet, or no more."""
        progress_ms = self.board.progress_ms()
        return max(self._clock.monotonic() - progress_ms / 1000, 0.0) if progress_ms else 0.0

    def kill(self, why: str) -> None:
        """End it and what it has started, at once."""
        if self.killed is None:
            self.killed, self._killed_at = why, self._clock.monotonic()
        self.child.kill_group()

    def hear_out(self) -> None:
        """Take in what it said before it ended, and hang up. The board stays readable."""
        self._link.close()

    def close(self) -> None:
        """Give back what this life of the worker has used."""
        self._link.close()
        self.board.close()
        self._stacks.close()
        os.close(self._lifeline)

    def refusal(self, exit_code: int) -> Refused | None:
        """Why it could not start, if that is how it ended. One that could not even say so has its exit code."""
        if self.refused is None and exit_code == _CONFIG_EXIT and not self.ready:
            return Refused(exit_code=_CONFIG_EXIT, message="")
        return self.refused

    def how_it_ended(self, exit_code: int) -> str:
        """A phrase that follows "the process"."""
        if self.stuck is not None:
            return f"was stuck ({self.stuck}) and was killed by its supervisor"
        if self.killed is not None:
            return f"was killed by its supervisor: {self.killed}"
        if exit_code >= 0:
            return f"exited with code {exit_code}"
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:  # a real-time signal has no name
            return f"was killed by signal {-exit_code}"

    def status(self) -> WorkerStatus:
        now = self._clock.monotonic()
        beat = self.beat
        status = WorkerStatus(
            index=self.index,
            id=self.id,
            pid=self.child.pid,
            state=self._state(),
            restarts=self.restarts,
            uptime_ms=round((now - self.started_at) * 1000),
            instruction=self.instruction,
        )
        if beat is None or self._beat_at is None:
            return status
        status.beat_age_ms = round((now - self._beat_at) * 1000)
        status.loop_lag_ms = beat.loop_lag_ms
        status.store_ok_age_ms = None if beat.store_ok_ms is None else round(now * 1000 - beat.store_ok_ms)
        status.store_error = beat.store_error
        status.unready = beat.unready
        status.active, status.completed, status.failed = beat.active, beat.completed, beat.failed
        status.pools, status.details = beat.pools, beat.details
        if status.beat_age_ms >= LATE_BEAT_MS:
            status.running = tuple(self.running()[:_SHOWN])
        return status

    def _state(self) -> WorkerState:
        if self.killed is not None and self._clock.monotonic() - self._killed_at > _UNKILLABLE_S:
            return "stuck"
        if self.killed is not None or self.stuck is not None:
            return "waiting"
        if self._draining:
            return "draining"
        return "ready" if self.ready else "starting"

    def _told(self, instruction: Instruction | None) -> None:
        if self.dismissed.is_set():
            return
        self.instruction = instruction
        if instruction in ("stop", "recycle"):
            self.dismissed.set()

    def _hear(self, message: FromWorker) -> None:
        if isinstance(message, Hello):
            self.hello = message
        elif isinstance(message, Ready):
            self.ready = True
        elif isinstance(message, Beat):
            self.beat, self._beat_at = message, self._clock.monotonic()
        elif isinstance(message, Measured):
            self.measured, self.measured_at = message.samples, self._clock.monotonic()
        elif isinstance(message, Kept):
            self.kept = message.number
        elif isinstance(message, Told):
            self._told(message.instruction)
        elif isinstance(message, Bye):
            self.bye = message
            self.over.set()
        else:
            self.refused = message
            self.over.set()
        self._on_message(self, message)
