"""What commands say of jobs that are still in the application's outbox."""

from __future__ import annotations

from ..clock import SystemClock
from ..modules.outbox import source_of
from ..settings.outbox import OutboxSettings
from .output import near
from .project import Target


async def in_outbox(target: Target, job_id: str) -> str | None:
    """What a job that the store does not have waits for there; None: it is not there either, or there is no outbox.
    Raises `OutboxUnavailable`."""
    settings = target.loaded.sections.get("outbox")
    if not isinstance(settings, OutboxSettings) or settings.database is None or not job_id.isprintable():
        return None  # no text of a database is a lone surrogate
    clock = SystemClock()
    source = source_of(settings, target.app, target.store_url, clock)
    try:
        left = await source.find(job_id)
    finally:
        await source.close()
    if left is None:
        return None
    written = f"row in the outbox {source.shown}, written {near(left.created_ms, clock.now_ms())}"
    if left.error:
        return f"somebody to mend its {written}, which cannot be moved: {left.error}"
    behind = f", behind {left.ahead:,} more" if left.ahead else ""
    return f"a worker with OutboxModule to move its {written}{behind}"
