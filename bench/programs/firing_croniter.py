"""croniter, asked for timestamps, which is faster than datetimes."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from bench.programs.firing import START, measure

croniter: Any = import_module("croniter").croniter


def compiled(expression: str, zone: str) -> Any:
    return croniter(expression, START.astimezone(ZoneInfo(zone)))


def walk(fires: Any, count: int) -> list[float]:
    return [fires.get_next(float) for _ in range(count)]


if __name__ == "__main__":
    measure(compiled, walk, float)
