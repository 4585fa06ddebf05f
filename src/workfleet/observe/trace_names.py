"""The names of spans and attributes: those of OpenTelemetry's conventions for messaging, errors and code where there is
one, else under `workfleet`. `docs/traces.md` has the same table, and a test holds both to what is really told."""

from __future__ import annotations

from typing import Final, NamedTuple

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE: Final = "messaging.message.id"
CLIENT: Final = "messaging.client.id"
BATCH: Final = "messaging.batch.message_count"
ERROR: Final = "error.type"
JOB: Final = "workfleet.job.name"
CREATED: Final = "workfleet.job.created"
ATTEMPT: Final = "workfleet.job.attempt"
ATTEMPTS: Final = "workfleet.job.max_attempts"
WAIT: Final = "workfleet.job.wait_ms"
GROUP: Final = "workfleet.job.group"
SCHEDULE: Final = "workfleet.schedule.name"
SLOT: Final = "workfleet.schedule.slot"
OUTCOME: Final = "workfleet.outcome"
AGAIN: Final = "workfleet.retry.delay_ms"
POOL: Final = "workfleet.pool"
METHOD: Final = "workfleet.method"
CHILD: Final = "workfleet.child.pid"


class Spanned(NamedTuple):
    """One of the spans that the product begins by itself."""

    name: str
    kind: str
    attributes: tuple[str, ...]


SPANS: Final = (
    Spanned(
        "enqueue <queue>",
        "producer",
        (SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, MESSAGE, BATCH, JOB, CREATED, ERROR),
    ),
    Spanned(
        "run <queue>",
        "consumer",
        (
            SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, MESSAGE, CLIENT, JOB, ATTEMPT, ATTEMPTS, WAIT, GROUP,
            SCHEDULE, SLOT, OUTCOME, AGAIN, ERROR,
        ),
    ),
    Spanned("<pool>.<method>", "client", (POOL, METHOD, CHILD, OUTCOME, ERROR)),
    Spanned("<pool>.<method>", "server", (POOL, METHOD, CHILD, OUTCOME, ERROR)),
)  # fmt: skip
