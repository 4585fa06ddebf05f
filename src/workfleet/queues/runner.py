"""One job from claimed to decided: find its handler, run it within its limits, say how it ended, decide what follows.

Whatever user code does (raise, return what cannot be stored, call exit, ignore its cancellation) ends here as an
`Ended`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

from workfleet.errors import (
    Cancel,
    ConfigError,
    Fail,
    HandlerNotFound,
    PayloadRejected,
    Retry,
    Skipped,
    Snooze,
    WorkfleetError,
)
from workfleet.events import Event, JobClaimed
from workfleet.model.durations import duration_ms
from workfleet.model.jobs import Failure, JobRecord
from workfleet.model.jobtypes import Job
from workfleet.model.outcome import GIVE_BACK, Ended, RunPolicy, Settlement, decide
from workfleet.ports.clock import Clock
from workfleet.ports.stores import JobStore

from .handlers import Handler, HandlerTable
from .run import Run

_TRACEBACK_LIMIT = 20_000
_MESSAGE_LIMIT = 5_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Runner:
    """Runs claimed jobs. `bind` gives user code's logging the job's context; `draw` is the jitter's random number."""

    def __init__(
        self,
        handlers: HandlerTable,
        jobs: JobStore,
        *,
        clock: Clock,
        publish: Callable[[Event], None],
        bind: Callable[[JobRecord], AbstractContextManager[object]],
        draw: Callable[[], float],
        unknown: RunPolicy,
    ) -> None:
        self._handlers, self._jobs, self._clock = handlers, jobs, clock
        self._publish, self._bind, self._draw, self._unknown = publish, bind, draw, unknown

    def deadline_ms(self, record: JobRecord) -> int:
        """When a run that starts now must have ended; 0: never."""
        try:
            policy = self._handlers.find(record.queue, record.name).policy_for(record)
        except HandlerNotFound:
            return 0
        return self._clock.now_ms() + policy.timeout_ms if policy.timeout_ms is not None else 0

    def give_back(self, record: JobRecord) -> Settlement:
        """The settlement of a job that did not run."""
        return self._settlement(GIVE_BACK, record, self._unknown)

    async def run(self, record: JobRecord) -> Settlement | None:
        """Run a claimed job. None: its code cannot be ended, so only the end of this process may give the job back."""
        try:
            handler = self._handlers.find(record.queue, record.name)
        except HandlerNotFound as error:
            return self._settlement(Ended(kind="unknown_job", failure=failure_of(error)), record, self._unknown)
        policy = handler.policy_for(record)
        self._publish(_claimed(record, policy))
        with self._bind(record):
            ended = await self._ended(record, handler, policy)
        return None if ended is None else self._settlement(ended, record, policy)

    def _settlement(self, ended: Ended, record: JobRecord, policy: RunPolicy) -> Settlement:
        outcome = decide(ended, record, policy, now_ms=self._clock.now_ms(), draw=self._draw())
        return Settlement(record.claim, outcome)

    async def _ended(self, record: JobRecord, handler: Handler, policy: RunPolicy) -> Ended | None:
        run = Run(record, self._jobs, self._publish)
        try:
            job = self._job(record, handler, policy, run)
        except PayloadRejected as error:
            return Ended(kind="failed", failure=failure_of(error))
        scope = asyncio.timeout(_seconds(policy.timeout_ms))
        try:
            if handler.in_thread:
                return await self._in_thread(record, handler, policy, job)
            async with scope:
                return _finished(record, handler, await handler.invoke(job))
        except asyncio.CancelledError as error:
            return _cancelled(error)
        except TimeoutError as error:
            return _timed_out(policy) if scope.expired() else raised(error)
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is this job's outcome
            return raised(error)
        finally:
            run.end()
            await run.flush()

    async def _in_thread(
        self, record: JobRecord, handler: Handler, policy: RunPolicy, job: Job[object]
    ) -> Ended | None:
        """A thread cannot be ended. After a timeout the job is settled at once when it has no attempt left; else
        only when
        the thread has ended, so that it never runs twice at a time."""
        running = asyncio.ensure_future(handler.invoke(job))
        try:
            done, _ = await asyncio.wait({running}, timeout=_seconds(policy.timeout_ms))
            if not done and record.attempts_made + 1 < policy.attempts:
                await asyncio.wait({running})
        except asyncio.CancelledError:
            return None
        if not done:
            running.add_done_callback(_ignore_late_end)
            return _timed_out(policy)
        return _finished(record, handler, running.result())

    def _job(self, record: JobRecord, handler: Handler, policy: RunPolicy, run: Run) -> Job[object]:
        timeout_ms = policy.timeout_ms
        return Job(
            data=handler.payload.decode(record.payload),
            id=record.id,
            name=record.name,
            queue=record.queue,
            attempt=record.attempts_made + 1,
            max_attempts=policy.attempts,
            deadline=None if timeout_ms is None else _instant(self._clock.now_ms() + timeout_ms),
            schedule=record.schedule,
            slot=None if record.slot_ms is None else _instant(record.slot_ms),
            tags=record.tags,
            metadata=record.metadata,
            _port=run,
        )


def raised(error: BaseException) -> Ended:
    """How a run ended that raised. The control exceptions say it themselves; a wrong duration in one is a failure."""
    if isinstance(error, Fail):
        return Ended(kind="failed", failure=Failure("failed", error.reason, "Fail"))
    if isinstance(error, Skipped):
        return Ended(kind="skipped", failure=Failure("skipped", error.reason, "Skipped"))
    if isinstance(error, Cancel):
        return Ended(kind="cancelled", failure=Failure("cancelled", str(error), "Cancel"))
    if isinstance(error, Retry | Snooze):
        return _asked(error)
    return Ended(kind="raised", failure=failure_of(error))


def _asked(error: Retry | Snooze) -> Ended:
    kind = "retry" if isinstance(error, Retry) else "snoozed"
    try:
        after_ms = None if error.after is None else duration_ms(error.after)  # type: ignore[arg-type]
    except (TypeError, ValueError) as wrong:
        return Ended(kind="failed", failure=failure_of(wrong))
    return Ended(kind=kind, after_ms=after_ms, failure=Failure(kind, str(error), type(error).__name__))  # type: ignore[arg-type]


def failure_of(error: BaseException) -> Failure:
    """An exception as it is kept with the job: bounded, valid text."""
    code = error.code if isinstance(error, WorkfleetError) else "raised"
    shown = "" if isinstance(error, HandlerNotFound | ConfigError) else "".join(traceback.format_exception(error))
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return Failure(code, _text(_said(error), _MESSAGE_LIMIT), name, _text(shown, _TRACEBACK_LIMIT, keep_end=True))


def _said(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except Exception as broken:  # noqa: BLE001 - the exception's own __str__ is user code too
        return f"(its text cannot be read: {type(broken).__name__})"


def _text(text: str, limit: int, *, keep_end: bool = False) -> str:
    clean = text.encode(errors="replace").decode()
    return clean if len(clean) <= limit else clean[-limit:] if keep_end else clean[:limit]


def _finished(record: JobRecord, handler: Handler, value: object) -> Ended:
    """A result that cannot be stored fails the job for good: its side effects are done and must not run again."""
    try:
        returned = handler.finish(record, value)
    except (PayloadRejected, WorkfleetError) as error:
        return Ended(kind="failed", failure=failure_of(error))
    return Ended(kind="returned", result=returned.result, follow_up=returned.follow_up)


def _cancelled(error: asyncio.CancelledError) -> Ended:
    """Cancelled from outside is a give-back; a handler that raises CancelledError by itself has failed."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        task.uncancel()
        return GIVE_BACK
    return Ended(kind="raised", failure=failure_of(error))


def _timed_out(policy: RunPolicy) -> Ended:
    message = f"the run did not end within its timeout of {(policy.timeout_ms or 0) / 1000:g} s"
    return Ended(kind="timed_out", failure=Failure("timed_out", message, "JobTimeout"))


def _ignore_late_end(running: asyncio.Future[object]) -> None:
    if not running.cancelled():
        running.exception()  # retrieved, so that a late failure is not reported as never seen


def _claimed(record: JobRecord, policy: RunPolicy) -> JobClaimed:
    started = record.started_ms or 0
    return JobClaimed(
        id=record.id,
        name=record.name,
        queue=record.queue,
        attempt=record.attempts_made + 1,
        max_attempts=policy.attempts,
        wait_ms=max(started - max(record.created_ms, record.due_ms), 0),
        schedule=record.schedule,
        slot_ms=record.slot_ms,
        housekeeping=record.housekeeping,
    )


def _instant(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
