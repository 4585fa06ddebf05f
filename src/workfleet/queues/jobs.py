"""`Jobs` and `Queues`: what user code and the command line do with stored jobs."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence

from workfleet.errors import NotFound, UsageError
from workfleet.model.jobs import JobCounts, JobRecord, JobState
from workfleet.ports.stores import JobQuery, Store


class Jobs:
    """The app's jobs: list, get, logs, retry."""

    def __init__(self, store: Callable[[], Awaitable[Store]]) -> None:
        self._store = store

    async def list(
        self,
        *,
        queue: str | None = None,
        states: Sequence[JobState] | None = None,
        name: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> builtins.list[JobRecord]:
        """Jobs that match, newest first."""
        query = JobQuery(queue, tuple(states) if states else None, name, limit, offset)
        return await (await self._store()).jobs.find(query)

    async def get(self, job_id: str) -> JobRecord:
        """One job. Raises `NotFound`."""
        (record,) = await (await self._store()).jobs.get([job_id])
        if record is None:
            raise NotFound(f"there is no job {job_id!r}: check the id, or its retention is over")
        return record

    async def logs(self, job_id: str) -> builtins.list[str]:
        """What its handler wrote with `job.log`. Raises `NotFound`."""
        await self.get(job_id)
        return await (await self._store()).jobs.logs(job_id)

    async def retry(self, job_id: str) -> None:
        """Make a failed job ready again, with all its attempts. Raises `NotFound`, and `UsageError` if it has not
        failed."""
        record = await self.get(job_id)
        (done,) = await (await self._store()).jobs.retry([job_id])
        if not done:
            raise UsageError(f"job {job_id} is {record.state.value}: only a failed job can be retried")


class Queues:
    """The app's queues."""

    def __init__(self, store: Callable[[], Awaitable[Store]]) -> None:
        self._store = store

    async def list(self) -> dict[str, JobCounts]:
        """The queues that hold or held jobs, with counts by state, by name."""
        counts = await (await self._store()).jobs.counts()
        return dict(sorted(counts.items()))
