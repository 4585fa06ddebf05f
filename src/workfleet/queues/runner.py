"""One job from claimed to decided: find its handler, run it within its limits, say how it ended, decide what follows.

Whatever user code does (raise, return what cannot be stored, call exit, ignore its cancellation) ends here as an
`Ended`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakSet

from msgspec import Struct

from workfleet.errors import HandlerNotFound, HandlerSwitchedOff
from workfleet.events import Event, JobClaimed
from workfleet.model.jobs import EXPIRED, Failure, JobRecord
from workfleet.model.jobtypes import Job
from workfleet.model.outcome import CANCELLED, GIVE_BACK, Ended, RunPolicy, Settlement, decide
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore
from workfleet.ports.spans import BegunRun, OpenRun, nobody_looks

from .deadlines import Deadlines
from .ends import Ends
from .failures import failure_of, raised
from .handlers import NOTHING, THREAD_TIMEOUT, Handler, HandlerTable
from .kept import MOST_KEPT, MostKept
from .run import Channel, Run

_OFF_MS = 60_000
"""How long a job waits whose handler an operator has switched off."""
_RETURNED_NOTHING = Ended(kind="returned", result=NOTHING.result)


class Plan(Struct, frozen=True, gc=False):
    """What is to be done with a claimed job: run it by a handler within a policy, or settle it unrun as `ended`."""

    policy: RunPolicy
    handler: Handler | None = None
    ended: Ended | None = None


class Runner:
    """Runs claimed jobs. `bind` gives user code's logging the job's context, and what keeps a line with the job, of
    which `kept` is the most; `clean` takes out of what it says with `job.log` what nobody may read; `draw` is the
    jitter's random number."""

    def __init__(
        self,
        handlers: HandlerTable,
        jobs: JobStore,
        *,
        clock: Clock,
        publish: Callable[[Event], None],
        bind: Callable[[JobRecord, Callable[[str], None]], object],
        draw: Callable[[], float],
        unknown: RunPolicy,
        trace: OpenRun = nobody_looks,
        kept: MostKept = MOST_KEPT,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._handlers, self._clock = handlers, clock
        self._publish, self._bind, self._draw, self._unknown = publish, bind, draw, unknown
        self._trace = trace
        self._ends = Ends(handlers.backoffs, publish)
        loop = asyncio.get_running_loop()
        self._channel = Channel(jobs, publish, loop, kept, clean)
        self._deadlines = Deadlines(loop)
        self._stopped: WeakSet[asyncio.Task[object]] = WeakSet()

    def plan(self, record: JobRecord) -> Plan:
        """What is to be done with a job that was just claimed."""
        if record.doomed is not None:
            return Plan(self._unknown, ended=Ended(kind="failed", failure=record.doomed))
        try:
            handler = self._handlers.find(record.queue, record.name)
            policy = handler.policy_for(record)
        except HandlerNotFound as error:
            return Plan(self._unknown, ended=Ended(kind="unknown_job", failure=failure_of(error)))
        except HandlerSwitchedOff as error:
            return Plan(self._unknown, ended=Ended(kind="snoozed", after_ms=_OFF_MS, failure=failure_of(error)))
        if record.cancel_asked:
            return Plan(policy, ended=CANCELLED)
        if record.expires_ms is not None and (record.started_ms or 0) >= record.expires_ms:
            return Plan(policy, ended=Ended(kind="expired", failure=EXPIRED))
        if handler.in_thread and policy.timeout_ms is not None and not handler.abandons:
            refused = Failure("timeout_refused", f"job {record.name!r}: {THREAD_TIMEOUT}")
            return Plan(policy, ended=Ended(kind="failed", failure=refused))
        return Plan(policy, handler)

    def settlement(self, ended: Ended, record: JobRecord, policy: RunPolicy) -> Settlement:
        """What follows from the end of a run, under its claim."""
        return Settlement(record.claim, decide(ended, record, policy, now_ms=self._clock.now_ms(), draw=self._draw()))

    def give_back(self, record: JobRecord) -> Settlement:
        """The settlement of a job that did not run."""
        return self.settlement(GIVE_BACK, record, self._unknown)

    def refused(self, record: JobRecord, error: Exception) -> Settlement:
        """The settlement of a run whose own one the store cannot take: its side effects are done."""
        return self.settlement(Ended(kind="failed", failure=failure_of(error)), record, self._unknown)

    def stop(self, task: asyncio.Task[Settlement | None]) -> None:
        """Ask a run to stop: its job is given back. A cancellation that nobody asked for is the job's own failure."""
        self._stopped.add(task)
        task.cancel()

    def time_out(self, task: asyncio.Task[object] | None) -> bool:
        """The time of the run in this task is over, whatever the clock says. False where it has no timeout."""
        return self._deadlines.expire(task)

    def run(self, record: JobRecord, plan: Plan) -> Awaitable[Settlement | None]:
        """Do what `plan` says; called and awaited in a task of its own. None: the job's code cannot be ended, so only
        the end of this process may give the job back."""
        span = None if plan.handler is None else self._trace(record, plan.policy, plan.handler.shown_as)
        return self._run(record, plan) if span is None else self._run_in(span, record, plan)

    async def _run_in(self, span: BegunRun, record: JobRecord, plan: Plan) -> Settlement | None:
        settlement: Settlement | None = None
        try:
            settlement = await self._run(record, plan)
        finally:
            span.end(settlement)
        return settlement

    async def _run(self, record: JobRecord, plan: Plan) -> Settlement | None:
        handler, policy, ended = plan.handler, plan.policy, plan.ended
        if handler is not None:
            try:
                self._publish(_claimed(record, policy))
                # For this task only, and what it starts: nothing has to be put back.
                run = Run(record, self._channel, handler.payload_limit)
                self._bind(record, run.keep)
                try:
                    job = self._job(record, handler, policy, run)
                except Exception as error:  # noqa: BLE001 - the boundary around validators, which are user code too
                    return self.settlement(Ended(kind="failed", failure=failure_of(error)), record, policy)
                try:
                    if handler.in_thread:
                        ended = await self._in_thread(record, handler, policy, job, run)
                    else:
                        ended = await self._in_loop(record, handler, policy, job)
                finally:
                    if not run.over():
                        await run.close()
            except Exception as error:  # noqa: BLE001 - the last boundary: a job must end, whatever else is broken
                ended = raised(error)
        return None if ended is None else self.settlement(ended, record, policy)

    async def _in_loop(self, record: JobRecord, handler: Handler, policy: RunPolicy, job: Job[object]) -> Ended:
        deadline = None if policy.timeout_ms is None else self._deadlines.start(policy.timeout_ms)
        try:
            ended = _finished(record, handler, await handler.invoke(job))
        except asyncio.CancelledError as error:
            ended = self._cancelled(record, error)
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is this job's outcome
            ended = self._ends.raised(error, record, policy)
            # What fails while it is being stopped has not failed: it runs again elsewhere.
            if ended.kind in ("raised", "retry") and asyncio.current_task() in self._stopped:
                ended = GIVE_BACK
        if deadline is not None:
            self._deadlines.end(deadline)
            # Code that ignores its cancellation and goes on, to whatever end, has passed its timeout all the same.
            if deadline.expired:
                _ = _heed_no_cancellation()
                return self._ends.timed_out(record, policy)
        return ended

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
            return self._ends.timed_out(record, policy)
        come = running.result()
        if come.error is None:
            return _finished(record, handler, come.value)
        ended = self._ends.raised(come.error, record, policy)
        # What stopped because it was asked to has not failed: it runs again elsewhere.
        given_up = asked and not record.cancel_asked and ended.kind in ("raised", "retry")
        return GIVE_BACK if given_up else ended

    def _cancelled(self, record: JobRecord, error: asyncio.CancelledError) -> Ended:
        """Asked to stop is a give-back, or the end of a job that somebody has cancelled; a run that cancels itself, or
        raises CancelledError, has failed."""
        task = _heed_no_cancellation()
        if record.cancel_asked:
            return CANCELLED
        return GIVE_BACK if task in self._stopped else Ended(kind="raised", failure=failure_of(error))

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
            deadline_ms=None if timeout_ms is None else self._clock.now_ms() + timeout_ms,
            schedule=record.schedule,
            slot_ms=record.slot_ms,
            tags=record.tags,
            metadata=record.metadata,
            group=record.group,
            trace=record.trace,
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
    if returned is NOTHING:
        return _RETURNED_NOTHING
    return Ended(kind="returned", result=returned.result, follow_up=returned.follow_up)


def _heed_no_cancellation() -> asyncio.Task[object]:
    """Forget what cancellations this task has had: they were meant for the run, which is over."""
    task = asyncio.current_task()
    assert task is not None
    while task.cancelling():
        task.uncancel()
    return task


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


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
