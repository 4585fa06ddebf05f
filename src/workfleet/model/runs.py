"""What listeners hear: the start and the end of runs, and slots that made none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from msgspec import Struct

RunKind = Literal["start", "success", "failure", "retry", "skip", "miss"]
"""A run begins; it completed; it failed for good (also cancelled and expired); it failed and is tried again; it was
skipped, or a slot was; slots were missed."""
RUN_KINDS: tuple[RunKind, ...] = get_args(RunKind)


class RunEvent(Struct, frozen=True, kw_only=True):
    """What a listener is told. What does not apply is None: a slot that made no run has no job, for example."""

    kind: RunKind
    schedule: str | None = None
    """The schedule whose run it is; None of a job that was enqueued otherwise."""
    slot_ms: int | None = None
    job_id: str | None = None
    name: str | None = None
    """The job's name."""
    queue: str | None = None
    attempt: int | None = None
    outcome: str | None = None
    """The code of how the run ended: "completed", "failed", "timed_out", "crashed", "cancelled"…; of slots that made no
    run "skipped", "missed" or "coalesced" (`job_id` is then the run that they went into)."""
    duration_ms: int | None = None
    delay_ms: int | None = None
    """Of a retry: the wait before the next attempt."""
    error: str | None = None
    """Why it failed, or why there was no run."""
    count: int = 1
    """Of slots that made no run: how many, from `slot_ms` on."""

    @property
    def slot(self) -> datetime | None:
        """The slot as an instant, UTC."""
        return None if self.slot_ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.slot_ms)
