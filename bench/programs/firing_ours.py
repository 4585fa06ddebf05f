"""Ours, from `Cron.next` to `Cron.next`, as the scheduler asks."""

from __future__ import annotations

from bench.programs.firing import START_S, measure
from workfleet.model.cron import Cron


def compiled(expression: str, zone: str) -> Cron:
    return Cron.parse(expression, timezone=zone)


def walk(cron: Cron, count: int) -> list[int]:
    found: list[int] = []
    at = cron.next(START_S * 1000)
    while at is not None and len(found) < count:
        found.append(at)
        at = cron.next(at)
    return found


if __name__ == "__main__":
    measure(compiled, walk, lambda ms: ms / 1000)
