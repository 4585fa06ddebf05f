"""A pulse in SQLite: one step in the lane that writes."""

from __future__ import annotations

from workfleet.model.outcome import Settlement
from workfleet.ports.pulse import Pulse, PulseRequest

from .adding import add_jobs
from .claiming import claim_jobs
from .fleet import beat
from .lane import Step
from .reading import stirring_queues
from .schedules import schedules_revision
from .settling import settle_jobs


def take_pulse(step: Step, app: str, request: PulseRequest) -> tuple[Pulse, list[str]]:
    """The answer, and the queues that have something to claim."""
    add_jobs(step, app, [request.probe], call=None)
    claimed = claim_jobs(step, app, request.claim)
    settled, _ = settle_jobs(step, app, [Settlement(record.claim, request.done) for record in claimed])
    worker = None if request.worker is None else beat(step, app, request.worker, request)
    stirring = stirring_queues(step, app, request.queues, request.within_ms)
    return Pulse(sum(settled), schedules_revision(step, app), worker), stirring
