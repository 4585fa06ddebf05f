"""A reference to an enqueued job: look at it, wait for its result."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from .errors import JobFailed, NotFound, ResultTimeout
from .model.durations import DurationLike, duration_ms
from .model.jobs import JobRecord, JobState
from .payloads.codec import Codec
from .payloads.hints import resolved, stored_result
from .ports.clock import Clock
from .ports.jobs import JobStore

R_co = TypeVar("R_co", covariant=True)

_FIRST_POLL_S = 0.02
_LAST_POLL_S = 1.0


class JobRef(Generic[R_co]):
    """What `enqueue` gives back. `created` is False when a job with that id or unique key was there already; it is that
    one's reference then. `replaced`: it has taken this job's payload and options (`Unique(on_conflict=…)`)."""

    def __init__(
        self,
        id: str,
        *,
        created: bool,
        jobs: JobStore,
        clock: Clock,
        result: Any = Any,
        replaced: bool = False,
        queue: str | None = None,
    ) -> None:
        self.id, self.created, self.replaced = id, created, replaced
        self._queue = queue
        self._jobs, self._clock, self._result = jobs, clock, result

    async def record(self) -> JobRecord:
        """The job as it is stored now. Raises `NotFound` when it was deleted."""
        (record,) = await self._jobs.get([self.id], queue=self._queue)
        if record is None:
            raise NotFound(f"job {self.id} is not in the store: it was deleted, or its retention is over")
        return record

    async def result(self, *, timeout: DurationLike | None = None) -> R_co:
        """Wait for the job and give its handler's return value.

        Raises `JobFailed` when the job failed, `ResultTimeout` when it is not finished in time, `NotFound` when it is
        gone."""
        limit_s = None if timeout is None else duration_ms(timeout) / 1000
        try:
            async with asyncio.timeout(limit_s):
                record = await self._finished()
        except TimeoutError:
            raise ResultTimeout(f"job {self.id} is not finished after {timeout}; it goes on") from None
        if record.state is JobState.FAILED:
            failure = record.failure
            if failure is None:
                raise JobFailed(self.id, record.outcome or "failed", "")
            raise JobFailed(self.id, failure.code, failure.message, failure.type)
        hint = stored_result(resolved(self._result))
        value: R_co = Codec(hint, f"result of job {self.id}").decode(record.result or b"null")
        return value

    async def _finished(self) -> JobRecord:
        wait_s = _FIRST_POLL_S
        while True:
            record = await self.record()
            if record.state in (JobState.COMPLETED, JobState.FAILED):
                return record
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LAST_POLL_S)

    def __repr__(self) -> str:
        return f"JobRef({self.id!r}, created={self.created})"
