"""One job from claimed to decided: find its handler, run it within its limits, say how it ended, decide what follows.

Whatever user code does (raise, return what cannot be stored, call exit, ignore its cancellation) ends here as an
`Ended`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from weakref import WeakSet

from workfleet.errors import HandlerNotFound, HandlerSwitchedOff
from workfleet.events import Event, JobClaimed
from workfleet.model.jobs import Failure, JobRecord
from workfleet.model.jobtypes import Job
from workfleet.model.outcome import GIVE_BACK, Ended, RunPolicy, Settlement, decide
from workfleet.ports.clock import Clock
from workfleet.ports.stores import JobStore

from .failures import failure_of, raised
from .handlers import THREAD_TIMEOUT, Handler, HandlerTable
from .run import Run

_OFF_MS = 60_000
"""How long a job waits whose handler an operator has switched off."""
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
        self._asked: WeakSet[asyncio.Task[object]] = WeakSet()
        self._publish, self._bind, self._draw, self._unknown = publish, bind, draw, unknown

    def deadline_ms(self, record: JobRecord) -> int:
        """When a run that starts now must have ended; 0: never."""
        try:
            policy = self._handlers.find(record.queue, record.name).policy_for(record)
        except (HandlerNotFound, HandlerSwitchedOff):
            return 0
        return self._clock.now_ms() + policy.timeout_ms if policy.timeout_ms is not None else 0

    def give_back(self, record: JobRecord) -> Settlement:
        """The settlement of a job that did not run."""
        return self._settlement(GIVE_BACK, record, self._unknown)

    def stop(self, task: asyncio.Task[Settlement | None]) -> None:
        """Ask a run to stop: its job is given back. A cancellation that nobody asked for is the job's own failure."""
        self._asked.add(task)
        task.cancel()

    async def run(self, record: JobRecord) -> Settlement | None:
        """Run a claimed job. None: its code cannot be ended, so only the end of this process may give the job back."""
        policy = self._unknown
        try:
            handler = self._handlers.find(record.queue, record.name)
            policy = handler.policy_for(record)
            self._publish(_claimed(record, policy))
            with self._bind(record):
                ended = await self._ended(record, handler, policy)
        except HandlerNotFound as error:
            ended = Ended(kind="unknown_job", failure=failure_of(error))
        except HandlerSwitchedOff as error:
            ended = Ended(kind="snoozed", after_ms=_OFF_MS, failure=failure_of(error))
        except Exception as error:  # noqa: BLE001 - the last boundary: a job must end, whatever else is broken
            ended = raised(error)
        return None if ended is None else self._settlement(ended, record, policy)

    def _settlement(self, ended: Ended, record: JobRecord, policy: RunPolicy) -> Settlement:
        outcome = decide(ended, record, policy, now_ms=self._clock.now_ms(), draw=self._draw())
        return Settlement(record.claim, outcome)

    async def _ended(self, record: JobRecord, handler: Handler, policy: RunPolicy) -> Ended | None:
        if handler.in_thread and policy.timeout_ms is not None and not handler.abandons:
            return Ended(kind="failed", failure=Failure("timeout_refused", f"job {record.name!r}: {THREAD_TIMEOUT}"))
        run = Run(record, self._jobs, self._publish)
        try:
            job = self._job(record, handler, policy, run)
        except Exception as error:  # noqa: BLE001 - the boundary around validators, which are user code too
            return Ended(kind="failed", failure=failure_of(error))
        try:
            if handler.in_thread:
                return await self._in_thread(record, handler, policy, job, run)
            return await self._in_loop(record, handler, policy, job)
        finally:
            await run.close()

    async def _in_loop(self, record: JobRecord, handler: Handler, policy: RunPolicy, job: Job[object]) -> Ended:
        scope = asyncio.timeout(_seconds(policy.timeout_ms))
        try:
            async with scope:
                value = await handler.invoke(job)
            ended = _finished(record, handler, value)
        except asyncio.CancelledError as error:
            ended = self._cancelled(error)
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is this job's outcome
            ended = raised(error)
        # Code that ignores its cancellation and goes on, to whatever end, has passed its timeout all the same.
        return _timed_out(policy) if scope.expired() else ended

    async def _in_thread(
        self, record: JobRecord, handler: Handler, policy: RunPolicy, job: Job[object], run: Run
    ) -> Ended | None:
        """A thread cannot be ended, only asked. After a timeout the job is settled at once when it has no attempt left;
        else only when the thread has ended, so that it never runs twice at a time. A first cancellation asks, too; a
        second one gives up."""
        running = asyncio.ensure_future(_come_to(handler.invoke(job)))
        late = asked = False
        try:
            await asyncio.wait({running}, timeout=_seconds(policy.timeout_ms))
            late = not running.done()
            run.stop()
            if late and record.attempts_made + 1 < policy.attempts:
                await asyncio.wait({running})
        except asyncio.CancelledError:
            asked = True
            run.stop()
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                return None
        if late:
            return _timed_out(policy)
        come = running.result()
        if come.error is None:
            return _finished(record, handler, come.value)
        ended = raised(come.error)
        # What stopped because it was asked to has not failed: it runs again elsewhere.
        return GIVE_BACK if asked and ended.kind in ("raised", "retry") else ended

    def _cancelled(self, error: asyncio.CancelledError) -> Ended:
        """Asked to stop is a give-back; a run that cancels itself, or raises CancelledError, has failed."""
        task = asyncio.current_task()
        assert task is not None
        while task.cancelling():
            task.uncancel()
        return GIVE_BACK if task in self._asked else Ended(kind="raised", failure=failure_of(error))

    def _job(self, record: JobRecord, handler: Handler, policy: RunPolicy, run: Run) -> Job[object]:
        timeout_ms = policy.timeout_ms
        queue, name = handler.shown_as or (record.queue, record.name)
        return Job(
            data=handler.payload.decode(record.payload),
            id=record.id,
            name=name,
            queue=queue,
            attempt=record.attempts_made + 1,
            max_attempts=policy.attempts,
            deadline=None if timeout_ms is None else _instant(self._clock.now_ms() + timeout_ms),
            schedule=record.schedule,
            slot=None if record.slot_ms is None else _instant(record.slot_ms),
            tags=record.tags,
            metadata=record.metadata,
            _port=run,
        )


@dataclass(frozen=True)
class _Come:
    """What a run in a thread came to. An exception is a value here: raised in a task, `SystemExit` would end the loop,
    and `StopIteration` cannot be raised at all."""

    value: object = None
    error: BaseException | None = None


async def _come_to(invoking: Awaitable[object]) -> _Come:
    try:
        return _Come(value=await invoking)
    except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is this job's outcome
        return _Come(error=error)


def _finished(record: JobRecord, handler: Handler, value: object) -> Ended:
    """A result that cannot be stored fails the job for good: its side effects are done and must not run again."""
    try:
        returned = handler.finish(record, value)
    except Exception as error:  # noqa: BLE001 - serializers are user code too
        return Ended(kind="failed", failure=failure_of(error))
    return Ended(kind="returned", result=returned.result, follow_up=returned.follow_up)


def _timed_out(policy: RunPolicy) -> Ended:
    message = f"the run did not end within its timeout of {(policy.timeout_ms or 0) / 1000:g} s"
    return Ended(kind="timed_out", failure=Failure("timed_out", message, "JobTimeout"))


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
