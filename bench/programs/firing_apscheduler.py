"""APScheduler's CronTrigger, asked as its scheduler asks: the next fire after the last one."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from bench.programs.firing import START, measure


def compiled(expression: str, zone: str) -> CronTrigger:
    return CronTrigger.from_crontab(expression, timezone=ZoneInfo(zone))


def walk(trigger: CronTrigger, count: int) -> list[datetime]:
    found: list[datetime] = []
    last: datetime | None = None
    for _ in range(count):
        last = trigger.get_next_fire_time(last, START if last is None else last)
        if last is None:
            break
        found.append(last)
    return found


if __name__ == "__main__":
    measure(compiled, walk, datetime.timestamp)
