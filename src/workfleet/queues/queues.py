"""`Queues`: what user code and the command line do with whole queues."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from workfleet.errors import NotFound, UsageError
from workfleet.model.jobs import JobCounts, JobState
from workfleet.model.limits import NO_LIMITS, QueueLimits, QueueRecord
from workfleet.model.names import queue_name
from workfleet.ports.stores import Store

PURGED = (JobState.WAITING, JobState.DELAYED, JobState.PRIORITIZED)
"""What `purge` deletes unless told otherwise: what has not begun."""
_PAGE = 1_000


@dataclass(frozen=True)
class QueueInfo:
    """A queue: its jobs by state, whether it is paused, and what limits it across the fleet."""

    name: str
    counts: JobCounts
    paused: bool = False
    limits: QueueLimits = NO_LIMITS


class Queues:
    """The app's queues."""

    def __init__(self, store: Callable[[], Awaitable[Store]]) -> None:
        self._store = store

    async def list(self) -> dict[str, JobCounts]:
        """The queues that hold or held jobs, with counts by state, by name."""
        counts = await (await self._store()).jobs.counts()
        return dict(sorted(counts.items()))

    async def get(self, name: str) -> QueueInfo:
        """One queue. Raises `NotFound` for one that never had a job, and about which nothing was said."""
        store = await self._store()
        counts, records = await store.jobs.counts(), await store.queues.all()
        if name not in counts and name not in records:
            known = ", ".join(sorted(counts.keys() | records.keys())) or "none"
            raise NotFound(f"there is no queue {name!r}. Known queues: {known}")
        record = records.get(name, QueueRecord())
        return QueueInfo(name, counts.get(name, JobCounts()), record.paused, record.limits)

    async def pause(self, name: str) -> bool:
        """Hand out no job of it any more, in the whole fleet, until `resume`; what runs goes on. It may be a queue that
        has no job yet. False when it was paused already."""
        return await (await self._store()).queues.set_paused(_checked(name), paused=True)

    async def resume(self, name: str) -> bool:
        """Hand out its jobs again, at once. False when it was not paused."""
        return await (await self._store()).queues.set_paused(_checked(name), paused=False)

    async def purge(self, name: str, *, states: Sequence[JobState] = PURGED) -> int:
        """Delete its jobs in these states, a thousand in one step; the queue's pause and limits stay. Returns how many.

        Raises `UsageError` for active ones: cancel those."""
        wanted = _purgeable(states)
        store, deleted = await self._store(), 0
        while True:
            page = await store.jobs.purge(_checked(name), wanted, _PAGE)
            deleted += page
            if page < _PAGE:
                return deleted


def _purgeable(states: Sequence[JobState]) -> builtins.list[JobState]:
    try:
        wanted = [JobState(state) for state in states]
    except ValueError as error:
        raise UsageError(f"states: {error}; there are {', '.join(JobState)}") from None
    if JobState.ACTIVE in wanted:
        raise UsageError("active jobs cannot be purged: cancel them first, or wait until they have ended")
    return wanted


def _checked(name: str) -> str:
    try:
        return queue_name(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
