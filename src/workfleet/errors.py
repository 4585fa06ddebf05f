"""Every error of the product, with its stable code and the exit code that the command line gives it.

An error carries its facts as attributes and says what happened, where, and what to do. `code` is used in logs, metrics
and stored failures, so it never changes. This file knows nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class WorkfleetError(Exception):
    """The root. `code` names the kind of error, `exit_code` is what a command ends with when it meets it."""

    code = "error"
    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a configuration. `value` is masked already where it is a secret."""

    name: str
    message: str
    value: str | None = None
    origin: str | None = None

    def __str__(self) -> str:
        shown = f" = {self.value}" if self.value is not None else ""
        origin = f" (from {self.origin})" if self.origin else ""
        return f"{self.name}{shown}{origin}: {self.message}"


class ConfigError(WorkfleetError):
    """The configuration or the declared application cannot start. All problems at once, in `problems`."""

    code = "config"
    exit_code = 78

    def __init__(self, problems: Sequence[Problem] | Problem) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        count = len(self.problems)
        head = "1 problem" if count == 1 else f"{count} problems"
        super().__init__(f"{head} in the configuration:\n" + "\n".join(f"  - {problem}" for problem in self.problems))


class UsageError(WorkfleetError):
    """A call or a command was given something that makes no sense."""

    code = "usage"
    exit_code = 2


class StoreUnavailable(WorkfleetError):
    """The store cannot be reached or refuses to work. `reason` is the engine's own word. `passing`: it may end by
    itself, without anybody changing a setting, so that whoever can wait does."""

    code = "store_unavailable"
    exit_code = 3

    def __init__(self, store: str, reason: str, advice: str = "", *, passing: bool = False) -> None:
        self.store, self.reason, self.advice, self.passing = store, reason, advice, passing
        super().__init__(f"store {store}: {reason}" + (f". {advice}" if advice else ""))


class OutboxUnavailable(WorkfleetError):
    """The application's database, which holds the outbox, cannot be reached or refuses. `reason` is its own word."""

    code = "outbox_unavailable"
    exit_code = 3

    def __init__(self, database: str, reason: str, advice: str = "") -> None:
        self.database, self.reason = database, reason
        super().__init__(f"outbox {database}: {reason}" + (f". {advice}" if advice else ""))


class NotFound(WorkfleetError):
    """There is no such job, queue, schedule or worker."""

    code = "not_found"
    exit_code = 4


class PayloadRejected(WorkfleetError):
    """A value cannot be stored as it is. `path` names the place in it, such as `$.lines[3].price`."""

    code = "payload_rejected"
    exit_code = 2

    def __init__(self, what: str, path: str, reason: str) -> None:
        self.what, self.path, self.reason = what, path, reason
        super().__init__(f"{what}: {path}: {reason}")


class QueueingDisabled(WorkfleetError):
    """`WORKER_QUEUE_ENABLED=false`: this process neither consumes nor fills user queues."""

    code = "queueing_disabled"

    def __init__(self, queue: str, job: str) -> None:
        self.queue, self.job = queue, job
        super().__init__(
            f"job {job!r} cannot be put on queue {queue!r}: queueing is off in this process. "
            "Set WORKER_QUEUE_ENABLED=true to use queues"
        )


class StaleClaim(WorkfleetError):
    """The job was claimed anew, settled or deleted meanwhile: this run may change nothing any more."""

    code = "stale_claim"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id}: this run lost its claim, so it may not change the job any more")


class HandlerNotFound(WorkfleetError):
    """No handler of that name is known on that queue. `known` lists those that are."""

    code = "unknown_job"

    def __init__(self, queue: str, name: str, known: Sequence[str]) -> None:
        self.queue, self.name, self.known = queue, name, tuple(known)
        listed = ", ".join(sorted(known)) or "none"
        super().__init__(f"no handler is named {name!r} on queue {queue!r}. Known handlers: {listed}")


class HandlerSwitchedOff(WorkfleetError):
    """An operator switched the handler off: its jobs wait until it is on again."""

    code = "switched_off"

    def __init__(self, queue: str, name: str) -> None:
        self.queue, self.name = queue, name
        super().__init__(f"the handler {name!r} of queue {queue!r} is switched off by the settings of jobs")


class JobFailed(WorkfleetError):
    """What `JobRef.result()` raises for a job that failed. `failure_code` and `failure_message` say how, and
    `failure_type` of which type the exception was, if it was one."""

    code = "job_failed"

    def __init__(self, job_id: str, failure_code: str, failure_message: str, failure_type: str = "") -> None:
        self.job_id, self.failure_code, self.failure_message = job_id, failure_code, failure_message
        self.failure_type = failure_type
        said = f"{failure_type}: {failure_message}" if failure_code == "raised" and failure_type else failure_message
        super().__init__(f"job {job_id} failed ({failure_code}): {said}")


class ResultTimeout(WorkfleetError):
    """`JobRef.result(timeout=…)` waited in vain; the job goes on."""

    code = "result_timeout"


class JobTimeout(WorkfleetError):
    """A run passed its timeout."""

    code = "timed_out"


class LockBusy(WorkfleetError):
    """Somebody else holds the lock: try later. `holder` says who."""

    code = "lock_busy"

    def __init__(self, name: str, holder: str) -> None:
        self.name, self.holder = name, holder
        super().__init__(f"lock {name!r} is held by {holder}")


class LockUnavailable(WorkfleetError):
    """The store could not answer, so nobody knows who holds the lock."""

    code = "lock_unavailable"

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"lock {name!r}: the store did not answer: {reason}")


class LockLost(WorkfleetError):
    """The lock was lost while its body ran: it could not be renewed in time, or was released by an operator."""

    code = "lock_lost"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"lock {name!r} was lost: stop changing what it protects")


class MisplacedGuard(WorkfleetError, TypeError):
    """A guard stands where workfleet never calls the function, so it would silently protect nothing."""

    code = "misplaced_guard"


class CircuitOpen(WorkfleetError):
    """The circuit breaker lets no call through at the moment. `retry_after_ms` is how long it stays so."""

    code = "circuit_open"

    def __init__(self, name: str, retry_after_ms: int) -> None:
        self.name, self.retry_after_ms = name, retry_after_ms
        super().__init__(f"circuit {name!r} is open after repeated failures; try again in {retry_after_ms / 1000:g} s")


class RateLimited(WorkfleetError):
    """A `rate_limit` lets no further call through at the moment. `retry_after_ms` is when it may again."""

    code = "rate_limited"

    def __init__(self, name: str, limit: int, per_ms: int, retry_after_ms: int) -> None:
        self.name, self.limit, self.per_ms, self.retry_after_ms = name, limit, per_ms, retry_after_ms
        super().__init__(
            f"{name!r} is at its limit of {limit} calls in {per_ms / 1000:g} s; "
            f"try again in {retry_after_ms / 1000:g} s"
        )


class PoolError(WorkfleetError):
    """A pool cannot do what was asked."""

    code = "pool_error"


class PoolBusy(PoolError):
    """The pool's queue is full. `retry_after_ms` is a guess of when it is not."""

    code = "pool_busy"

    def __init__(self, pool: str, limit: int, retry_after_ms: int) -> None:
        self.pool, self.limit, self.retry_after_ms = pool, limit, retry_after_ms
        super().__init__(f"pool {pool!r}: {limit} calls wait already; try again in {retry_after_ms / 1000:g} s")


class PoolFailed(PoolError):
    """The pool's children died too often in a row. `reason` is the last one's end, `last_words` the end of its standard
    error. Scaling the pool lets it try anew."""

    code = "pool_failed"

    def __init__(self, pool: str, reason: str, last_words: str = "") -> None:
        self.pool, self.reason, self.last_words = pool, reason, last_words
        super().__init__(f"pool {pool!r} has failed and takes no calls: {reason}{_said(last_words)}")


class MemoryLimitExceeded(PoolError):
    """A call used more memory than its pool allows; only that call fails. Sizes in bytes."""

    code = "memory_limit"

    def __init__(self, pool: str, method: str, used: int, limit: int) -> None:
        self.pool, self.method, self.used, self.limit = pool, method, used, limit
        super().__init__(
            f"{pool}.{method} used {used / 1e6:.0f} MB, the limit is {limit / 1e6:.0f} MB: its process was killed"
        )


class CpuTimeExceeded(PoolError):
    """A call used more processor time than its pool allows; only that call fails."""

    code = "cpu_time_exceeded"

    def __init__(self, pool: str, method: str, used_ms: int, limit_ms: int) -> None:
        self.pool, self.method, self.used_ms, self.limit_ms = pool, method, used_ms, limit_ms
        super().__init__(
            f"{pool}.{method} used {used_ms / 1000:.1f} s of processor time, the limit is {limit_ms / 1000:g} s: "
            "its process was killed"
        )


class CallTimeout(PoolError):
    """A pool call passed its timeout; the process that worked on it was killed and replaced. `ended` says what became
    of it."""

    code = "call_timeout"

    def __init__(self, pool: str, method: str, timeout_ms: int, *, ended: str = "its process was killed") -> None:
        self.pool, self.method, self.timeout_ms, self.ended = pool, method, timeout_ms, ended
        super().__init__(f"{pool}.{method} did not end within {timeout_ms / 1000:g} s: {ended}")


class ChildDied(PoolError):
    """A pool's child ended in the middle of a call. `how` is the signal or exit code, `last_words` the end of its
    standard error, `peak_bytes` the most that it held in memory; None where that is not known."""

    code = "child_died"

    def __init__(
        self, pool: str, method: str, pid: int, how: str, last_words: str = "", peak_bytes: int | None = None
    ) -> None:
        self.pool, self.method, self.pid, self.how = pool, method, pid, how
        self.last_words, self.peak_bytes = last_words, peak_bytes
        held = "" if peak_bytes is None else f", it held at most {peak_bytes / 1e6:.0f} MB"
        super().__init__(f"the child {pid} of pool {pool!r} died in {method} ({how}{held}){_said(last_words)}")


class CallStuck(PoolError):
    """A pool call made no progress for `stuck_ms`; the process that worked on it was killed and replaced. `last_words`
    is the end of its standard error, with the stacks of its threads. A call that waits on purpose should report
    progress, or the pool's `stuck_after` be longer."""

    code = "call_stuck"

    def __init__(self, pool: str, method: str, pid: int, stuck_ms: int, last_words: str = "") -> None:
        self.pool, self.method, self.pid = pool, method, pid
        self.stuck_ms, self.last_words = stuck_ms, last_words
        super().__init__(
            f"{pool}.{method} made no progress for {stuck_ms / 1000:g} s: its process {pid} was killed; "
            f"report progress where it waits, or raise `stuck_after`{_said(last_words)}"
        )


LAST_WORDS = "\nlast words:\n"
"""What stands in a message between the error and the end of a child's standard error."""


def _said(last_words: str) -> str:
    return f"{LAST_WORDS}{last_words}" if last_words else ""


class RemoteError(PoolError):
    """A child raised something that cannot be sent as it is. Type, message and traceback are kept as text."""

    code = "remote_error"

    def __init__(self, type_name: str, message: str, traceback: str) -> None:
        self.type_name, self.message, self.traceback = type_name, message, traceback
        super().__init__(f"{type_name}: {message}" if message else type_name)


# What a handler raises to say how its run ends. They are decisions, not errors of the product.


class Retry(Exception):
    """Run this job again after `after` (a duration such as "30s"; None: by its backoff). Counts as an attempt."""

    def __init__(self, reason: str = "", *, after: object = None) -> None:
        self.reason, self.after = reason, after
        super().__init__(reason or "the handler asked for a retry")


class Snooze(Exception):
    """Not now: run this job again after `after`, without counting an attempt."""

    def __init__(self, after: object, reason: str = "") -> None:
        self.reason, self.after = reason, after
        super().__init__(reason or "the handler asked to be called later")


class Fail(Exception):
    """This job has failed for good: no more attempts."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Cancel(Exception):
    """This job need not be done any more: it ends as failed with the outcome `cancelled`."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "cancelled by its handler")


class Skipped(Exception):
    """This run does nothing, and that is right (its lock is busy, say): recorded as `skipped` with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
