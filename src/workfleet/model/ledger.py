"""What the run ledger keeps: one row for each attempt of a scheduled run, and for each slot that made no run."""

from __future__ import annotations

from msgspec import Struct


class LedgerRow(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One attempt of a scheduled run, or slots of a schedule that made none. Instants are in milliseconds, UTC."""

    id: str
    """Made by who writes the row. It decides between rows of one instant: the later id is the later row."""
    at_ms: int
    """When the attempt ended, or when it was decided that there is none. Rows are in this order."""
    schedule: str
    outcome: str
    """Of an attempt: the code of its outcome ("completed", "failed", "timed_out", "crashed", …). Of slots: "skipped",
    "coalesced" (`job_id` is then the run that they went into) or "missed"."""
    slot_ms: int | None = None
    """The slot; of several the first. None: the run was triggered, or made at a start."""
    job_id: str | None = None
    attempt: int | None = None
    """Counts from 1. One that a crash ended counts no attempt, so its number comes again. None: there was no run."""
    started_ms: int | None = None
    worker: str = ""
    """Who ran it; where there was no run, who decided so."""
    error: str | None = None
    """Why it did not complete, or why there was no run."""
    count: int = 1
    """How many slots the row is about, from `slot_ms` on; more than one only where there was no run."""

    @property
    def ended_ms(self) -> int | None:
        """When the attempt ended; None where there was none."""
        return None if self.started_ms is None else self.at_ms

    @property
    def duration_ms(self) -> int | None:
        return None if self.started_ms is None else max(self.at_ms - self.started_ms, 0)


class LedgerKeep(Struct, frozen=True):
    """How long rows are kept: for `age_ms` (at least 1), and the newest `count` (at least 1) of each schedule."""

    age_ms: int
    count: int
