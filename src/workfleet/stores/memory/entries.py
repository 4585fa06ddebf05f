"""One job in memory, and small questions about it: its place in the order, its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from workfleet.model.jobs import FINISHED, READY, JobCounts, JobRecord, JobState


@dataclass
class Entry:
    """A job, and what only the store knows of it."""

    record: JobRecord
    number: int
    """The order of enqueueing."""
    call: str | None
    """The call that added it."""
    holder: str | None = None
    """Who holds the claim: the worker that runs it, or whoever took it over."""
    settled_token: str | None = None
    """The token that settled it last."""
    reported_call: str | None = None
    replaced_call: str | None = None
    """The call that replaced it last, and the ids of the newcomers whose payload it took."""
    replaced_by: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.record.state in FINISHED

    @property
    def claimed(self) -> bool:
        """Whether it was ever claimed since it was enqueued, or retried by hand."""
        return self.record.started_ms is not None


def ready(job: JobRecord) -> JobState:
    """The state of a job that can be claimed."""
    return JobState.PRIORITIZED if job.priority else JobState.WAITING


def state_now(job: JobRecord, now_ms: int) -> JobState:
    """The state of a job that nobody runs."""
    return JobState.DELAYED if job.parked or job.due_ms > now_ms else ready(job)


def never_starts(job: JobRecord, now_ms: int) -> bool:
    """Whether a job that holds its unique key has expired, and nobody else will tell of its end."""
    expired = job.expires_ms is not None and job.expires_ms <= now_ms
    return expired and job.state not in (*FINISHED, JobState.ACTIVE) and job.schedule is None


def place(entry: Entry) -> tuple[int, ...]:
    """The order in which ready jobs are claimed."""
    record = entry.record
    if record.lifo and not record.priority:
        return (0, -record.due_ms, -entry.number)
    return (1, record.priority, record.due_ms, entry.number)


def counts(records: Sequence[JobRecord]) -> JobCounts:
    """A queue's jobs, counted."""
    states = Counter(record.state.value.replace("-", "_") for record in records)
    return JobCounts(
        **states,
        retrying=sum(record.state is JobState.DELAYED and record.started_ms is not None for record in records),
        oldest_ready_ms=min((record.due_ms for record in records if record.state in READY), default=None),
    )


def copy(entry: Entry) -> JobRecord:
    """What the store gives away is not what it keeps."""
    return structs.replace(entry.record, metadata=dict(entry.record.metadata))
