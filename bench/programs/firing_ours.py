"""Ours, from `Cron.next` to `Cron.next`, as the scheduler asks."""

from __future__ import annotations

from bench.programs.firing import START_S, measure
from workfleet.model.cron import Cron


def compiled(expression: str, zone: str) -> Cron:
    return Cron.parse(expression, timezone=zone)


def walk(cron: Cron, count: int) -> list[int]:
    found: list[int] = []
    at: int | None = START_S * 1000
    for _ in range(count):
        at = cron.next(at)
        if at is None:
            break
        found.append(at)
    return found


if __name__ == "__main__":
    measure(compiled, walk, lambda ms: ms / 1000)
