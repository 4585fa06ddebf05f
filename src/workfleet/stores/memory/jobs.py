"""Jobs in memory: a dictionary of entries, and the meaning of each operation spelled out as plainly as it can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from workfleet.model.jobs import FINISHED, HISTORY_LIMIT, READY, Claim, Enqueued, JobCounts, JobRecord, JobState
from workfleet.model.outcome import Settlement
from workfleet.ports.clock import Clock
from workfleet.ports.stores import ClaimRequest, JobQuery, PruneRule, Settled, TakeOver

from ..wakes import Wakes, queue_topic
from .entries import Entry, copy, matches, place, ready
from .entries import counts as counts_of


class MemoryJobs:
    """A `JobStore`."""

    def __init__(self, clock: Clock, wakes: Wakes) -> None:
        self._clock, self._wakes = clock, wakes
        self._entries: dict[str, Entry] = {}
        self._open: dict[str, Entry] = {}
        """Those of them that have not finished."""
        self._numbers = 0
        self._queues: dict[str, bool] = {}
        """Every queue that ever had a job, and whether one of them was the users'."""

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        return self.add(jobs, call=call)

    async def claim(self, request: ClaimRequest) -> list[JobRecord]:
        return self._claim(request)

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None = None) -> Settled:
        applied = [self._settle(settlement) for settlement in settlements]
        return Settled(applied, [] if then is None else self._claim(then))

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        entries = [self._held(claim) for claim in claims]
        for entry in entries:
            if entry is not None:
                entry.record.lease_until_ms = self._clock.now_ms() + lease_ms
        return [entry is not None for entry in entries]

    async def report(
        self, claim: Claim, *, progress: bytes | None = None, lines: Sequence[str] = (), call: str | None = None
    ) -> bool:
        entry = self._held(claim)
        if entry is None:
            return False
        if call is None or entry.reported_call != call:
            entry.reported_call = call
            entry.record.progress = entry.record.progress if progress is None else progress
            entry.lines.extend(lines)
        return True

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        held = [entry for entry in self._active() if entry.record.token == request.token]
        if not held:
            held = sorted(self._orphans(request), key=lambda e: (e.record.lease_until_ms, e.number))[: request.limit]
            for entry in held:
                self._hand_out(entry, request.worker, request.token, request.lease_ms)
        return [copy(entry) for entry in held]

    async def get(self, ids: Sequence[str]) -> list[JobRecord | None]:
        found = [self._entries.get(job_id) for job_id in ids]
        return [None if entry is None else copy(entry) for entry in found]

    async def find(self, query: JobQuery) -> list[JobRecord]:
        found = [entry for entry in self._entries.values() if matches(entry.record, query)]
        found.sort(key=lambda entry: (entry.record.created_ms, entry.record.id), reverse=True)
        return [copy(entry) for entry in found[query.offset : query.offset + query.limit]]

    async def logs(self, job_id: str) -> list[str]:
        entry = self._entries.get(job_id)
        return [] if entry is None else list(entry.lines)

    async def counts(self, *, housekeeping: bool = True) -> dict[str, JobCounts]:
        jobs = defaultdict[str, list[JobRecord]](list)
        for entry in self._entries.values():
            if housekeeping or not entry.record.housekeeping:
                jobs[entry.record.queue].append(entry.record)
        return {queue: counts_of(jobs[queue]) for queue, users in self._queues.items() if housekeeping or users}

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        delayed = (e.record for e in self._open.values() if e.record.state is JobState.DELAYED)
        return min((record.due_ms for record in delayed if record.queue in queues), default=None)

    async def retry(self, ids: Sequence[str]) -> list[bool]:
        return [self._retry(self._entries.get(job_id)) for job_id in ids]

    async def prune(self, rules: Sequence[PruneRule], limit: int = 1_000) -> int:
        doomed = dict.fromkeys(entry.record.id for rule in rules for entry in self._pruned_by(rule))
        pruned = list(doomed)[:limit]
        for job_id in pruned:
            del self._entries[job_id]
        return len(pruned)

    async def wait(self, queues: Sequence[str], timeout_ms: int) -> bool:
        return await self._wakes.wait(map(queue_topic, queues), timeout_ms)

    def add(self, jobs: Sequence[JobRecord], *, call: str | None) -> list[Enqueued]:
        """Add jobs in the step of whoever asks."""
        answers: list[Enqueued] = []
        for job in jobs:
            again = any(answer.id == job.id for answer in answers)
            there = self._entries.get(job.id) or self._with_key(job.unique_key)
            if there is None:
                self._insert(job, call)
                answers.append(Enqueued(job.id, created=True))
            else:
                same_call = call is not None and there.call == call and there.record.id == job.id
                answers.append(Enqueued(there.record.id, created=same_call and not again))
        self._wakes.announce(queue_topic(job.queue) for job in jobs)
        return answers

    def state_of(self, job_id: str) -> JobState | None:
        """A job's state, None when it is not there."""
        entry = self._entries.get(job_id)
        return None if entry is None else entry.record.state

    def _insert(self, job: JobRecord, call: str | None) -> None:
        now = self._clock.now_ms()
        due_ms = max(now + job.delay_ms, job.due_ms, now)
        record = JobRecord(
            id=job.id,
            queue=job.queue,
            name=job.name,
            payload=job.payload,
            state=JobState.DELAYED if due_ms > now else ready(job),
            run=job.run,
            priority=job.priority,
            lifo=job.lifo,
            delay_ms=job.delay_ms,
            due_ms=due_ms,
            unique_key=job.unique_key,
            schedule=job.schedule,
            slot_ms=job.slot_ms,
            housekeeping=job.housekeeping,
            tags=job.tags,
            metadata=dict(job.metadata),
            created_ms=now,
        )
        self._numbers += 1
        self._entries[job.id] = self._open[job.id] = Entry(record, self._numbers, call)
        self._queues[job.queue] = self._queues.get(job.queue, False) or not job.housekeeping

    def _with_key(self, unique_key: str | None) -> Entry | None:
        if unique_key is None:
            return None
        return next((entry for entry in self._open.values() if entry.record.unique_key == unique_key), None)

    def _claim(self, request: ClaimRequest) -> list[JobRecord]:
        self._wakes.looked(queue_topic(want.queue) for want in request.wants)
        queues = [want.queue for want in request.wants]
        held = [entry for entry in self._active() if entry.record.token == request.token]
        if held:
            held.sort(key=lambda entry: (queues.index(entry.record.queue), place(entry)))
            return [copy(entry) for entry in held]
        self._ripen(set(queues))
        for want in request.wants:
            chosen = sorted(self._ready_on(want.queue), key=place)[: max(want.limit, 0)]
            for entry in chosen:
                self._hand_out(entry, request.worker, request.token, request.lease_ms)
                entry.record.worker, entry.record.started_ms = request.worker, self._clock.now_ms()
            held.extend(chosen)
        return [copy(entry) for entry in held]

    def _ripen(self, queues: set[str]) -> None:
        """Delayed jobs that are due become ready."""
        now = self._clock.now_ms()
        for entry in self._open.values():
            record = entry.record
            if record.queue in queues and record.state is JobState.DELAYED and record.due_ms <= now:
                record.state = ready(record)

    def _hand_out(self, entry: Entry, holder: str, token: str, lease_ms: int) -> None:
        entry.holder = holder
        entry.record.state, entry.record.token = JobState.ACTIVE, token
        entry.record.lease_until_ms = self._clock.now_ms() + lease_ms

    def _held(self, claim: Claim) -> Entry | None:
        """The entry of a claim that is not stale."""
        entry = self._entries.get(claim.job_id)
        return entry if entry is not None and entry.record.token == claim.token else None

    def _orphans(self, request: TakeOver) -> Iterator[Entry]:
        now = self._clock.now_ms()
        for entry in self._active():
            lease_until_ms = entry.record.lease_until_ms or 0
            if entry.holder in request.workers if request.workers is not None else lease_until_ms <= now:
                yield entry

    def _active(self) -> Iterator[Entry]:
        return (entry for entry in self._open.values() if entry.record.state is JobState.ACTIVE)

    def _ready_on(self, queue: str) -> Iterator[Entry]:
        return (e for e in self._open.values() if e.record.queue == queue and e.record.state in READY)

    def _settle(self, settlement: Settlement) -> bool:
        entry, outcome, now = self._held(settlement.claim), settlement.outcome, self._clock.now_ms()
        if entry is None:
            settled = self._entries.get(settlement.claim.job_id)
            return settled is not None and settled.settled_token == settlement.claim.token
        record = entry.record
        if outcome.state is JobState.DELAYED:
            record.due_ms = now + max(outcome.delay_ms, 0)
            record.state = JobState.DELAYED if outcome.delay_ms > 0 else ready(record)
        else:
            record.state = ready(record) if outcome.state in READY else outcome.state
        record.finished_ms = now if record.state in FINISHED else None
        record.attempts_made, record.crashes = outcome.attempts_made, outcome.crashes
        record.deferrals = outcome.deferrals
        record.outcome, record.result, record.failure = outcome.code, outcome.result, outcome.failure
        if outcome.attempt is not None:
            record.history = (*record.history, outcome.attempt)[-HISTORY_LIMIT:]
        record.worker = record.token = record.lease_until_ms = entry.holder = None
        entry.settled_token = settlement.claim.token
        if record.state in FINISHED:
            del self._open[record.id]
        else:
            self._wakes.announce([queue_topic(record.queue)])
        self.add(outcome.follow_up, call=None)
        return True

    def _retry(self, entry: Entry | None) -> bool:
        if entry is None or entry.record.state is not JobState.FAILED or self._with_key(entry.record.unique_key):
            return False
        record = entry.record
        self._open[record.id] = entry
        record.state, record.due_ms = ready(record), self._clock.now_ms()
        record.attempts_made = record.crashes = record.deferrals = 0
        record.started_ms = record.finished_ms = record.outcome = None
        record.result = record.failure = record.progress = None
        self._wakes.announce([queue_topic(record.queue)])
        return True

    def _pruned_by(self, rule: PruneRule) -> Iterator[Entry]:
        """What a rule deletes, the oldest first."""
        by_queue = defaultdict[str, list[Entry]](list)
        for entry in self._entries.values():
            if entry.record.state is rule.state and entry.record.housekeeping == rule.housekeeping:
                by_queue[entry.record.queue].append(entry)
        before = self._clock.now_ms() - (rule.age_ms or 0)
        for entries in by_queue.values():
            entries.sort(key=lambda entry: (entry.record.finished_ms, entry.number))
            beyond = 0 if rule.count is None else max(len(entries) - rule.count, 0)
            for index, entry in enumerate(entries):
                finished_ms = entry.record.finished_ms or 0
                if index < beyond or (rule.age_ms is not None and finished_ms < before):
                    yield entry
