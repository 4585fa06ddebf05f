"""APScheduler's CronTrigger, asked as its scheduler asks: the next fire after the last one."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from bench.programs.firing import START, measure

CronTrigger: Any = import_module("apscheduler.triggers.cron").CronTrigger


def compiled(expression: str, zone: str) -> Any:
    return CronTrigger.from_crontab(expression, timezone=ZoneInfo(zone))


def walk(trigger: Any, count: int) -> list[datetime]:
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
