"""cronsim: an iterator is parsed and begun in one, and the only way to walk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from bench.programs.firing import START, measure


def compiled(expression: str, zone: str) -> Iterator[datetime]:
    return CronSim(expression, START.astimezone(ZoneInfo(zone)))


def walk(fires: Iterator[datetime], count: int) -> list[datetime]:
    return list(islice(fires, count))


if __name__ == "__main__":
    measure(compiled, walk, datetime.timestamp)
