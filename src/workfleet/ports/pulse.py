"""What an idle worker asks of its store again and again, in one call."""

from __future__ import annotations

from msgspec import Struct

from workfleet.model.fleet import PoolReport, WorkerRecord
from workfleet.model.jobs import JobRecord
from workfleet.model.outcome import Outcome

from .jobs import ClaimRequest


class PulseRequest(Struct, frozen=True):
    """What proves that a worker can work, whose sign of life it is, and what it wants to hear of.

    `probe` is a job of ours, `claim` is from its queue, and `done` is the outcome of whatever is claimed there."""

    probe: JobRecord
    claim: ClaimRequest
    done: Outcome
    worker: str | None = None
    """Whose record says that it lives. None: nobody's."""
    active: int = 0
    """How many jobs that worker runs."""
    pools: tuple[PoolReport, ...] = ()
    """How its pools are."""
    obeyed: tuple[str, ...] = ()
    """The orders that it has carried out: they are forgotten."""
    queues: tuple[str, ...] = ()
    """Where something to claim is news."""
    within_ms: int = 0
    """What will be due so soon is news, too."""


class Pulse(Struct, frozen=True):
    """The answer. `worker` is the record, which has its instruction and orders; None when it is gone, or none was asked
    for."""

    settled: int
    """How many jobs made the round trip."""
    schedules: int
    """A number that every change of the stored definitions raises; 0 before the first."""
    worker: WorkerRecord | None = None
