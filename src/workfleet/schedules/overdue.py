"""How long a schedule is overdue, as health, metrics and every command say it. Knows nothing of their thresholds."""

from __future__ import annotations

from workfleet.model.cron import CronError
from workfleet.model.schedules import ScheduleRecord

from .due import fire_time_ms, is_live


def overdue_ms(record: ScheduleRecord, now_ms: int) -> int:
    """How long ago a schedule should have fired, jitter included, at an instant of the store's clock; 0: it has nothing
    to make up for, does not fire at all, or is held."""
    if not is_live(record):
        return 0
    # One that is held is in somebody's hands, or waits for the end of a run.
    if record.held_until_ms is not None and record.held_until_ms > now_ms:
        return 0
    try:
        fires_at = fire_time_ms(record)
    except CronError:  # a timing that this version cannot read, stored by a newer one
        return 0
    return 0 if fires_at is None else max(now_ms - fires_at, 0)
