"""What workers say of their health, for people who look at the fleet: only what is ill."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..app.status import Status
from ..health.indication import HealthReport, IndicatorReport
from ..ports.exam import Finding, Level

HEALTH_TITLES = ("ILL", ">WORKER", "STATUS", "CRITICAL", "WHY")


def ill_rows(fleet: Status) -> list[list[str]]:
    """A row for each indicator of each worker that is not healthy."""
    return [
        [report.name, str(index), report.status, "yes" if report.critical else "no", report.reason]
        for index, report in _ill(fleet)
    ]


def health_findings(fleet: Status) -> Iterator[Finding]:
    """The same for `doctor`: what makes a worker unready is a problem."""
    for index, report in _ill(fleet):
        level: Level = "problem" if report.critical and report.status == "unhealthy" else "warning"
        said = f"worker {index} says: {report.name} is {report.status}"
        yield Finding("health", level, f"{said}: {report.reason}" if report.reason else said)


def _ill(fleet: Status) -> Iterator[tuple[int, IndicatorReport]]:
    for worker in fleet.workers:
        try:
            health = msgspec.convert(worker.details.get("health"), HealthReport | None)
        except msgspec.ValidationError:  # of a newer version
            continue
        if health is not None:
            yield from ((worker.index, report) for report in health.ill)
