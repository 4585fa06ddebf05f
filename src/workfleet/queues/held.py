"""What the exchange holds: claimed jobs, and answers of the store that it has not taken in yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from workfleet.model.jobs import Claim, JobRecord
from workfleet.model.outcome import Settlement
from workfleet.ports.jobs import Settled

from .runner import Plan


@dataclass(slots=True)
class Held:
    """A claimed job in this worker, from claim to settle."""

    record: JobRecord
    claim: Claim
    plan: Plan
    slot: int
    """Its note on the board; -1: it has none."""
    since_s: float
    """The monotonic instant from which its lease counts, at the earliest."""
    late: bool
    """Whether it was noted so late that somebody may have taken it over: that is to be seen before it begins."""
    task: asyncio.Task[None] | None = None
    begun: bool = False
    settlement: Settlement | None = None
    """What is to be settled: its run is over."""


@dataclass(slots=True)
class Answer:
    """What a call has come to."""

    batch: list[Held]
    """What it settled, in the order of `settled.applied`."""
    settled: Settled
    at_ms: int
    since_s: float
    """The monotonic instant from which the leases of what was claimed count."""
