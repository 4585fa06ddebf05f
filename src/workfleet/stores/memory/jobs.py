"""Jobs in memory: the meaning of each operation, spelled out as plainly as it can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from workfleet.model.jobs import CancelAnswer, Children, Claim, Enqueued, JobCounts, JobRecord, JobState
from workfleet.model.outcome import Settlement
from workfleet.ports.jobs import ClaimRequest, JobQuery, Place, PruneRule, Settled, TakeOver

from ..matching import matches
from ..wakes import CANCELS, queue_topic
from . import adding, claiming, ending, keeping, placing
from .book import Book
from .entries import Entry, copy
from .entries import counts as counts_of
from .queue import WHOLE


class MemoryJobs:
    """A `JobStore`."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        return adding.add(self._book, jobs, call=call)

    async def claim(self, request: ClaimRequest) -> list[JobRecord]:
        return claiming.claim(self._book, request)

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None = None) -> Settled:
        answers = [ending.settle(self._book, settlement) for settlement in settlements]
        left_out = {place: out for place, (_, out) in enumerate(answers) if out}
        claimed = [] if then is None else claiming.claim(self._book, then)
        return Settled([applied for applied, _ in answers], claimed, left_out=left_out)

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        entries = [ending.held(self._book, claim) for claim in claims]
        for entry in entries:
            if entry is not None:
                entry.record.lease_until_ms = self._book.now() + lease_ms
        return [entry is not None for entry in entries]

    async def report(
        self, claim: Claim, *, progress: bytes | None = None, lines: Sequence[str] = (), call: str | None = None
    ) -> bool:
        entry = ending.held(self._book, claim)
        if entry is None:
            return False
        if call is None or entry.reported_call != call:
            entry.reported_call = call
            entry.record.progress = entry.record.progress if progress is None else progress
            entry.lines.extend(lines)
        return True

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        return claiming.take_over(self._book, request)

    async def get(self, ids: Sequence[str], *, queue: str | None = None) -> list[JobRecord | None]:
        found = [self._entry(job_id, queue) for job_id in ids]
        return [None if entry is None else copy(entry) for entry in found]

    async def find(self, query: JobQuery) -> list[JobRecord]:
        found = [entry for entry in self._book.entries.values() if matches(entry.record, query)]
        found.sort(key=lambda entry: (entry.record.created_ms, entry.record.id), reverse=True)
        return [copy(entry) for entry in found[query.offset : query.offset + query.limit]]

    async def logs(self, job_id: str, *, queue: str | None = None) -> list[str]:
        entry = self._entry(job_id, queue)
        return [] if entry is None else list(entry.lines)

    async def place(self, job_id: str, *, queue: str | None = None) -> Place | None:
        return None if self._entry(job_id, queue) is None else placing.place_of(self._book, job_id)

    async def children(self, job_id: str, *, queue: str | None = None) -> Children:
        return Children()  # here are no flows

    async def counts(self, *, housekeeping: bool = True) -> dict[str, JobCounts]:
        jobs = defaultdict[str, list[JobRecord]](list)
        for entry in self._book.entries.values():
            if housekeeping or not entry.record.housekeeping:
                jobs[entry.record.queue].append(entry.record)
        return {
            name: counts_of(jobs[name])
            for name, queue in self._book.queues.items()
            if (queue.had_jobs if housekeeping else queue.had_users_jobs)
        }

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        return min((due_ms for name in queues for due_ms in self._due_on(name)), default=None)

    async def expires_in_ms(self) -> int | None:
        ends = [entry.record.lease_until_ms or 0 for entry in self._book.active.values()]
        return min(ends) - self._book.now() if ends else None

    async def retry(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return [ending.retry(self._book, self._entry(job_id, queue)) for job_id in ids]

    async def cancel(self, ids: Sequence[str], *, queue: str | None = None) -> list[CancelAnswer]:
        return [ending.cancel(self._book, self._entry(job_id, queue)) for job_id in ids]

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        self._book.wakes.looked([CANCELS])
        entries = [ending.held(self._book, claim) for claim in claims]
        return [entry is not None and entry.record.cancel_asked for entry in entries]

    async def wait_for_cancels(self, timeout_ms: int) -> bool:
        return await self._book.wakes.wait([CANCELS], timeout_ms)

    async def promote(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return [ending.promote(self._book, self._entry(job_id, queue)) for job_id in ids]

    async def delete(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return [keeping.delete(self._book, self._entry(job_id, queue)) for job_id in ids]

    async def purge(self, queue: str, states: Sequence[JobState], limit: int = 1_000) -> int:
        return keeping.purge(self._book, queue, states, limit)

    async def prune(self, rules: Sequence[PruneRule], limit: int = 1_000) -> int:
        return keeping.prune(self._book, rules, limit)

    async def wait(self, queues: Sequence[str], timeout_ms: int) -> bool:
        return await self._book.wakes.wait(map(queue_topic, queues), timeout_ms)

    def _entry(self, job_id: str, queue: str | None) -> Entry | None:
        entry = self._book.entries.get(job_id)
        return entry if entry is None or queue in (None, entry.record.queue) else None

    def state_of(self, job_id: str) -> JobState | None:
        """A job's state, None when it is not there. For tests that look without waiting."""
        entry = self._book.entries.get(job_id)
        return None if entry is None else entry.record.state

    def _due_on(self, name: str) -> Iterator[int]:
        """Instants at which there may be something to claim from a queue."""
        queue, now = self._book.queues.get(name), self._book.now()
        if queue is None or queue.record.paused:
            return
        for entry in self._book.open[name].values():
            record = entry.record
            if record.state is JobState.DELAYED and not record.parked:
                yield record.due_ms
        whole = queue.rate_allows_ms(WHOLE, now)
        for group in {entry.record.group for entry in self._book.ready_on(name)}:
            own = queue.rate_allows_ms(group, now)
            if whole is not None and own is not None and max(whole, own) > now:
                yield max(whole, own)
