"""What became of a schedule's runs, as the run ledger has it: `Schedules.history`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from workfleet.errors import UsageError
from workfleet.model.ledger import LedgerRow
from workfleet.ports.ledger import LedgerStore

from .info import instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PastRun:
    """One attempt of a scheduled run, or slots that made none; those have no `attempt`, `started` and job."""

    schedule: str
    slot: datetime | None
    """The slot, of several the first. None: it was triggered, or made at a start."""
    outcome: str
    """"completed", "failed", "timed_out", "crashed", "cancelled", "given_back"…; of slots that made no run "skipped",
    "missed" or "coalesced"."""
    at: datetime
    """When the attempt ended, or when it was decided that there is none."""
    attempt: int | None
    started: datetime | None
    duration: timedelta | None
    worker: str
    error: str | None
    """Why it did not complete, or why there was no run."""
    job_id: str | None
    count: int
    """How many slots it is about; more than one only of those that made no run."""

    @property
    def ended(self) -> datetime | None:
        """When the attempt ended; None where there was none."""
        return None if self.started is None else self.at


async def history(ledger: LedgerStore, schedule: str, limit: int) -> list[PastRun]:
    """The newest first. Raises `UsageError` for a limit below 1."""
    if limit < 1:
        raise UsageError(f"limit={limit}: ask for one run at least")
    return [_run(row) for row in await ledger.history(schedule, limit)]


def _run(row: LedgerRow) -> PastRun:
    duration_ms = row.duration_ms
    return PastRun(
        schedule=row.schedule,
        slot=instant(row.slot_ms),
        outcome=row.outcome,
        at=_EPOCH + timedelta(milliseconds=row.at_ms),
        attempt=row.attempt,
        started=instant(row.started_ms),
        duration=None if duration_ms is None else timedelta(milliseconds=duration_ms),
        worker=row.worker,
        error=row.error,
        job_id=row.job_id,
        count=row.count,
    )
