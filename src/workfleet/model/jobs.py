"""The stored job and the values around it. States are BullMQ's; every instant and duration is in integer
milliseconds."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

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


class Failure(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why an attempt did not complete: a stable code, the exception's type, its message and its traceback as text."""

    code: str
    message: str
    type: str = ""
    traceback: str = ""

    def said(self) -> str:
        """The message, after the exception's type where that is the user's: "KeyError: 'a'" says more than "'a'"."""
        return f"{self.type}: {self.message}" if self.code == "raised" and self.type else self.message


CANCELLED_UNRUN = Failure("cancelled", "it was cancelled before it ran to its end")
"""The failure of a job that was cancelled while nobody ran it."""
EXPIRED = Failure("expired", "it was not started before it expired")
"""The failure of a job that was not started in time."""


class Attempt(Struct, frozen=True, omit_defaults=True, gc=False):
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
    rules: dict[str, Backoff | None] | UnsetType = UNSET
    """Per exception, by its qualified name ("ValueError", "shop.errors.Declined") or a base class's: the wait before
    the next attempt, or None for no further one."""


class UniqueRule(Struct, frozen=True, omit_defaults=True):
    """How long a job holds its unique key, and what becomes of a newcomer with the same key.

    The holder's rule says how long: `until` it has finished, or until it is first claimed; with a `window_ms` for just
    that long after it was enqueued (or retried), whatever becomes of it, even if it is deleted. The newcomer's rule
    says what happens to a holder that was never claimed and has not finished: `keep` it as it is; `replace` its name,
    payload and what else was said at enqueue, but not its place in the order (id, queue, group, priority, LIFO,
    `due_ms`), its rule and `housekeeping`; or `debounce`: replace it and start its delay anew. Any other holder is
    always kept.

    A holder that has expired and that nobody runs holds nothing against a newcomer, unless it has a window: it fails
    then, with the outcome `expired`. Only a schedule's run is left to a worker, which tells of its end."""

    until: Literal["finished", "started"] = "finished"
    window_ms: int = 0
    on_conflict: Literal["keep", "replace", "debounce"] = "keep"
    exclusive: bool = False
    """With `until` "started" and no window: at most one job of the key that was claimed is unfinished. The next is
    `parked` meanwhile, so that one runs and one waits; it keeps the place that its `due_ms` gives it."""


class KeepRule(Struct, frozen=True, omit_defaults=True):
    """How long a finished job is kept: for `age_ms`, and among the newest `count` of its queue's jobs in that state
    that have the same rule. None: no such limit."""

    age_ms: int | None = None
    count: int | None = None


class Keep(Struct, frozen=True, omit_defaults=True):
    """A job's own retention, by the state in which it finishes. None: as all jobs."""

    completed: KeepRule | None = None
    failed: KeepRule | None = None


class Claim(Struct, frozen=True, gc=False):
    """The permission to run, renew and settle a job. Tokens are unique per claim call, compared only for equality.

    It names the queue because BullMQ counts the ids of each queue: one call may hand out two jobs of one id."""

    job_id: str
    token: str
    queue: str


class JobRecord(Struct, kw_only=True, omit_defaults=True, gc=False):
    """A job as the store keeps it. `payload`, `result` and `progress` are JSON documents.

    It, and what it holds, can be in no cycle of references, so the garbage collector need not look at it."""

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
    """At most one job of the app holds this key at a time, by its `unique` rule."""
    unique: UniqueRule = UniqueRule()
    parked: bool = False
    """`delayed` until the job that runs under its exclusive key has finished, and until `due_ms`."""
    group: str = ""
    """Groups of a queue take turns, and each has limits of its own. Empty: none."""
    expires_after_ms: int | None = None
    """Asked for at enqueue. The store turns it into `expires_ms` by its own clock."""
    expires_ms: int | None = None
    """It is not started at or after this instant."""
    keep: Keep = Keep()
    trace: str | None = None
    """The trace that enqueued it, as a W3C `traceparent`."""
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
    suspicions: int = 0
    """How often it was tried apart, because it reached its crash limit in the company of other jobs."""
    cancel_asked: bool = False
    """Somebody wants it cancelled while it runs: it is never started again."""
    doomed: Failure | None = None
    """It is not run: whoever claims it fails it with this. Only a Redis store has such jobs, whose children have failed
    them, or which BullMQ's workers have let stall too often."""
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
        return Claim(self.id, self.token, self.queue)


class Enqueued(Struct, frozen=True, gc=False):
    """The store's answer to one enqueued job: its id, and whether it was created or was there already.

    `replaced`: the one that was there has taken the newcomer's payload and options."""

    id: str
    created: bool
    replaced: bool = False


class Children(Struct, frozen=True):
    """What became of a job's child jobs, by their keys in Redis (`prefix:queue:id`): the results (JSON) of those that
    completed, and why those failed without which it goes on."""

    results: dict[str, bytes] = {}
    failures: dict[str, str] = {}


CancelAnswer = Literal["cancelled", "asked", "finished", "missing"]
"""What a cancellation did: the job has failed with the outcome `cancelled`; it runs and its worker is told; it had
finished and stays as it is; there is no such job."""


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
