"""`@trace`: a call inside a span, with the attributes of OpenTelemetry's conventions for code and for messaging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workfleet.model.jobtypes import Job
from workfleet.ports.guards import Call, Proceed, Span


@dataclass(frozen=True)
class Traced:
    """A guard. `name` None: the function's. `where` is its whole name."""

    name: str | None
    where: str
    span: Span

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        job = next((value for value in call.values.values() if isinstance(value, Job)), None)
        attributes: dict[str, object] = {"code.function.name": self.where}
        if job is not None:
            attributes |= _of_job(job)
        consumes = job is not None
        with self.span(
            self.name or call.name, attributes, consumes=consumes, parent=job.trace if job is not None else None
        ):
            return await proceed()


def _of_job(job: Job[object]) -> Mapping[str, object]:
    """See the semantic conventions for messaging spans; what they have no name for is under `workfleet`."""
    return {
        "messaging.system": "workfleet",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "workfleet.job.name": job.name,
        "workfleet.job.attempt": job.attempt,
        "workfleet.schedule.name": job.schedule,
    }
