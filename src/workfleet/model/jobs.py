"""The stored job and the values around it. States are BullMQ's; every instant and duration is in integer
milliseconds."""

from __future__ import annotations

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from .policy import Backoff


class JobState(StrEnum):
    """Where a job is. It is always in exactly one of these."""

    WAITING = "waiting"
    PRIORITIZED = "prioritized"
    DELAYED = "delayed"
    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"
    WAITING_CHILDREN = "waiting-children"


FINISHED = (JobState.COMPLETED, JobState.FAILED)
READY = (JobState.WAITING, JobState.PRIORITIZED)
MAX_PRIORITY = 2**21 - 1
HISTORY_LIMIT = 100
"""A job's history keeps this many attempts, the newest."""
UNDECODABLE = "undecodable"
"""The outcome of a stored job that cannot be read: it is kept and shown, never run, never pruned."""


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why an attempt did not complete: a stable code, the exception's type, its message and its traceback as text."""

    code: str
    message: str
    type: str = ""
    traceback: str = ""

    def said(self) -> str:
        """The message, after the exception's type where that is the user's: "KeyError: 'a'" says more than "'a'"."""
        return f"{self.type}: {self.message}" if self.code == "raised" and self.type else self.message


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One run of a job, as kept in its history."""

    number: int
    outcome: str
    started_ms: int
    ended_ms: int
    worker: str = ""
    failure: Failure | None = None


class RunOverrides(Struct, frozen=True, omit_defaults=True):
    """What a job itself says about its runs. Unset inherits from the handler; None switches off."""

    attempts: int | UnsetType = UNSET
    backoff: Backoff | UnsetType | None = UNSET
    timeout_ms: int | UnsetType | None = UNSET


class Claim(Struct, frozen=True):
    """The permission to run, renew and settle a job. Tokens are unique per claim call, compared only for equality."""

    job_id: str
    token: str


class JobRecord(Struct, kw_only=True, omit_defaults=True):
    """A job as the store keeps it. `payload`, `result` and `progress` are JSON documents."""

    id: str
    queue: str
    name: str
    payload: bytes = b"null"
    state: JobState = JobState.WAITING
    run: RunOverrides = RunOverrides()
    priority: int = 0
    """0 first, then lower numbers sooner, as in BullMQ."""
    lifo: bool = False
    delay_ms: int = 0
    """Asked for at enqueue. The store turns it into `due_ms` by its own clock."""
    due_ms: int = 0
    """When it becomes, or became, ready, by the store's clock. At enqueue: not before this instant (0: at once)."""
    unique_key: str | None = None
    """At most one unfinished job of the app has this key."""
    schedule: str | None = None
    slot_ms: int | None = None
    housekeeping: bool = False
    """The product's own job: not counted as work by `--until-idle`, and only the last few are kept."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}

    created_ms: int = 0
    started_ms: int | None = None
    finished_ms: int | None = None
    attempts_made: int = 0
    crashes: int = 0
    deferrals: int = 0
    """How often it was put back because no handler of its name was known."""
    worker: str | None = None
    token: str | None = None
    lease_until_ms: int | None = None
    outcome: str | None = None
    result: bytes | None = None
    failure: Failure | None = None
    progress: bytes | None = None
    history: tuple[Attempt, ...] = ()

    @property
    def claim(self) -> Claim:
        """The claim under which this record was handed out. Only an active record has one."""
        if self.token is None:
            raise ValueError(f"job {self.id} is {self.state.value}: nobody holds a claim on it")
        return Claim(self.id, self.token)


class Enqueued(Struct, frozen=True):
    """The store's answer to one enqueued job: its id, and whether it was created or was there already."""

    id: str
    created: bool


class JobCounts(Struct, frozen=True):
    """How many jobs a queue holds, by state.

    `retrying` are those of `delayed` that were claimed before. `oldest_ready_ms` is since when the first of the ready
    ones waits (its `due_ms`)."""

    waiting: int = 0
    prioritized: int = 0
    delayed: int = 0
    active: int = 0
    completed: int = 0
    failed: int = 0
    waiting_children: int = 0
    retrying: int = 0
    oldest_ready_ms: int | None = None
