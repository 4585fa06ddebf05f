"""Libraries that compute when a cron expression is due next. Each is asked in the way that is fastest for it."""

from __future__ import annotations

from ..firing import firing_peer

PEERS = (
    firing_peer("cronsim", "cronsim 2.8, one iterator an expression", "cronsim==2.8"),
    firing_peer("croniter", "croniter 7.0.0, one iterator an expression, `get_next(float)`", "croniter==7.0.0"),
    firing_peer("apscheduler", "APScheduler 3.11.3, `CronTrigger.get_next_fire_time`", "apscheduler==3.11.3"),
)
