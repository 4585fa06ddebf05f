"""How a run ended, with what the rules and the application's own backoffs say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import structs

from workfleet.bus import shown
from workfleet.errors import CircuitOpen, PoolBusy, PoolFailed, RateLimited, RemoteError
from workfleet.events import BackoffFailed, Event
from workfleet.model.durations import duration_ms
from workfleet.model.jobs import Failure, JobRecord
from workfleet.model.outcome import Ended, RunPolicy
from workfleet.model.policy import OwnBackoff, exception_name

from .failures import raised

_TIMED_OUT = ("TimeoutError",)
"""What rules call a run that did not end in time."""
_REFUSED = (CircuitOpen, PoolBusy, PoolFailed, RateLimited)
"""What was not even begun. All but a failed pool say when it may be."""
_FAILED_POOL_MS = 30_000
"""Another worker's pool may be well, and an operator may mend this one: jobs must not fail by the hundred meanwhile."""


class Ends:
    """Gives the runner its `Ended`s. `backoffs` are the application's own, by name."""

    def __init__(self, backoffs: Mapping[str, OwnBackoff], publish: Callable[[Event], None]) -> None:
        self._backoffs, self._publish = backoffs, publish

    def raised(self, error: BaseException, record: JobRecord, policy: RunPolicy) -> Ended:
        """How a run ended that raised. What a pool or a guard refused is nobody's failed attempt: the job waits as long
        as the refusal says, unless a rule names that."""
        ended = raised(error)
        if ended.kind == "raised":
            refused = next((each for each in _REFUSED if issubclass(type(error), each)), None)
            if refused is not None and exception_name(refused) not in policy.rules:
                return structs.replace(ended, kind="snoozed", after_ms=_after_ms(error))
            if policy.rules:
                ended = structs.replace(ended, raised=_names(error))
            return self._with_own_wait(ended, error, record, policy)
        return ended

    def timed_out(self, record: JobRecord, policy: RunPolicy) -> Ended:
        """How a run ended that did not end in time."""
        message = f"the run did not end within its timeout of {(policy.timeout_ms or 0) / 1000:g} s"
        ended = Ended(kind="timed_out", failure=Failure("timed_out", message, "JobTimeout"), raised=_TIMED_OUT)
        return self._with_own_wait(ended, None, record, policy)

    def _with_own_wait(self, ended: Ended, error: BaseException | None, record: JobRecord, policy: RunPolicy) -> Ended:
        """The wait that the application's own function says, where the backoff is one; else, and where that cannot be
        had, what the backoff says itself."""
        backoff = policy.backoff_for(ended)
        if backoff is None or backoff.kind != "own":
            return ended
        wait = self._backoffs.get(backoff.name)
        try:
            if wait is None:
                raise LookupError(f"no module of this application has a backoff {backoff.name!r}")
            return structs.replace(ended, after_ms=duration_ms(wait(record.attempts_made + 1, error)))
        except Exception as broken:  # noqa: BLE001 - the boundary around a function of the application
            self._publish(BackoffFailed(backoff=backoff.name, name=record.name, id=record.id, error=shown(broken)))
            return ended


def _after_ms(error: BaseException) -> int | None:
    if issubclass(type(error), PoolFailed):
        return _FAILED_POOL_MS
    after_ms = getattr(error, "retry_after_ms", None)  # a subclass may have forgotten to call ours
    return after_ms if type(after_ms) is int and after_ms >= 0 else None


def _names(error: BaseException) -> tuple[str, ...]:
    """What rules call an exception: its class, then that class's bases. Of one that a child could not send, what it was
    there comes first."""
    names = tuple(map(exception_name, type(error).__mro__))
    return (error.type_name, *names) if isinstance(error, RemoteError) else names
