"""croniter, asked for timestamps, which is faster than datetimes."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from croniter import croniter

from bench.programs.firing import START, measure


def compiled(expression: str, zone: str) -> croniter:
    return croniter(expression, START.astimezone(ZoneInfo(zone)))


def walk(fires: croniter, count: int) -> list[float]:
    return [fires.get_next(float) for _ in range(count)]


if __name__ == "__main__":
    measure(compiled, walk, float)
