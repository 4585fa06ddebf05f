"""What a worker can run: handlers as the app composed them, by queue and name. It must not know how they were
composed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from workfleet.errors import HandlerNotFound, HandlerSwitchedOff
from workfleet.model.jobs import JobRecord
from workfleet.model.jobtypes import Job
from workfleet.model.limits import NO_LIMITS, QueueLimits
from workfleet.model.outcome import RunPolicy
from workfleet.model.policy import OwnBackoff
from workfleet.payloads.codec import DEFAULT_LIMIT, Codec

THREAD_TIMEOUT = (
    'it has a timeout but runs in a thread, which cannot be ended. Run it in a pool (pool="cpu"), make it `async def`, '
    'or say on_timeout="abandon": then the job fails at its timeout and a late result is discarded'
)


@dataclass(frozen=True)
class Returned:
    """A handler's value as it is stored, and the jobs that it enqueues in the step that settles it."""

    result: bytes
    follow_up: tuple[JobRecord, ...] = ()


@dataclass(frozen=True)
class Handler:
    """One runnable handler. `invoke` awaits the user's code with everything injected and guarded; `finish` turns what
    it returned into a result."""

    queue: str
    name: str
    payload: Codec
    policy: RunPolicy
    invoke: Callable[[Job[Any]], Awaitable[object]]
    finish: Callable[[JobRecord, object], Returned]
    in_thread: bool = False
    """The code runs in a thread, which nobody can end."""
    abandons: bool = False
    """A run in a thread that passes its timeout is left to itself. Without it, a timeout fails the job unrun."""
    shown_as: tuple[str, str] | None = None
    """Queue and name as the job's own code sees them, where it runs on another queue than it was written for."""
    payload_limit: int = DEFAULT_LIMIT
    """Bytes that a result or a progress may have."""

    def policy_for(self, record: JobRecord) -> RunPolicy:
        """The handler's policy, with what the job itself says put over it."""
        run, own = record.run, self.policy
        if run.attempts is UNSET and run.backoff is UNSET and run.timeout_ms is UNSET and run.rules is UNSET:
            return own
        backoff = own.backoff if run.backoff is UNSET or run.backoff is None else run.backoff
        return RunPolicy(
            attempts=own.attempts if run.attempts is UNSET else run.attempts,
            backoff=backoff,
            timeout_ms=own.timeout_ms if run.timeout_ms is UNSET else run.timeout_ms,
            max_crashes=own.max_crashes,
            max_deferrals=own.max_deferrals,
            rules=own.rules if run.rules is UNSET else run.rules,
        )


_MOST_NAMES = 1_000

NOTHING = Returned(b"null")
"""What most handlers return."""


class HandlerTable:
    """All handlers of a worker, and how many jobs of each queue it runs at a time."""

    def __init__(
        self,
        handlers: Iterable[Handler],
        concurrency: dict[str, int],
        *,
        switched_off: Collection[tuple[str, str]] = (),
        weights: Mapping[str, int] | None = None,
        total: int | None = None,
        backoffs: Mapping[str, OwnBackoff] | None = None,
        limits: Mapping[str, QueueLimits] | None = None,
    ) -> None:
        """`switched_off` are handlers by queue and name that are known and must not run."""
        self._by_key = {(handler.queue, handler.name): handler for handler in handlers}
        self._off = frozenset(switched_off)
        self.concurrency = concurrency
        self.weights = dict.fromkeys(concurrency, 1) | dict(weights or {})
        """Each queue's share of `total`, relative to the others'."""
        self.total = total
        """How many jobs of all queues run at once at the most; None: what the queues' concurrency comes to."""
        self.backoffs: Mapping[str, OwnBackoff] = dict(backoffs or {})
        """The application's own backoffs, by name."""
        self.limits = dict.fromkeys(concurrency, NO_LIMITS) | dict(limits or {})
        """What holds for the queues across the fleet, as this worker's code and settings say."""

    def find(self, queue: str, name: str) -> Handler:
        """The handler of a job. Raises `HandlerNotFound`, which lists the known ones, and `HandlerSwitchedOff`."""
        handler = self._by_key.get((queue, name))
        if handler is None and (queue, name) in self._off:
            raise HandlerSwitchedOff(queue, name)
        if handler is None:
            raise HandlerNotFound(queue, name, [known for on, known in self._by_key if on == queue])
        return handler

    def names(self) -> dict[str, tuple[str, ...]]:
        """The names that it knows on each queue, those that are switched off included; {} where they are too many for
        a worker's record."""
        known = [*self._by_key, *self._off]
        if len(known) > _MOST_NAMES:
            return {}
        return {queue: tuple(sorted(name for on, name in known if on == queue)) for queue in self.concurrency}

    @property
    def queues(self) -> Sequence[str]:
        """The queues that this worker listens to."""
        return tuple(self.concurrency)
