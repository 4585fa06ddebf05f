"""What workers say of their health, for people who look at the fleet: only what is ill, and what `probe ready` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..app.judging import LATE_BEAT_MS, MAX_AGE_MS, judge, while_running
from ..app.status import Status, WorkerStatus
from ..health.indication import HealthReport, IndicatorReport
from ..ports.exam import Finding, Level

HEALTH_TITLES = ("ILL", ">WORKER", "STATUS", "CRITICAL", "WHY")


def not_ready(fleet: Status, now_mono_ms: int) -> str:
    """Why `probe ready` fails; "": it passes."""
    # As a reader of the file gets it: values of another kind would be judged otherwise.
    told = msgspec.json.decode(msgspec.json.encode(fleet))
    return judge("ready", told, MAX_AGE_MS, now_mono_ms)[1]


def blocked(fleet: Status, now_mono_ms: int) -> dict[int, str]:
    """The workers of which nothing is heard, by their place: what else they have said is as old. `probe ready` says so,
    too, though it passes as long as another one works."""
    age_ms = now_mono_ms - fleet.written_mono_ms
    silent = {
        worker.index: (worker.beat_age_ms + age_ms, while_running(worker.running))
        for worker in fleet.workers
        if worker.state == "ready" and worker.beat_age_ms is not None
    }
    return {
        index: f"its event loop is blocked: nothing is heard of it for {ms / 1000:.0f} s{running}"
        for index, (ms, running) in silent.items()
        if ms >= LATE_BEAT_MS
    }


def ill_rows(fleet: Status) -> list[list[str]]:
    """A row for each indicator that is not healthy, with the workers that say the same of it: in an outage all do."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for index, report in _ill(fleet):
        said = (report.name, report.status, "yes" if report.critical else "no", report.reason)
        found.setdefault(said, []).append(str(index))
    return [[name, ", ".join(at), *rest] for (name, *rest), at in found.items()]


def ill_names(worker: WorkerStatus) -> set[str]:
    """The indicators of a worker that are not healthy."""
    return {report.name for report in _ill_of(worker)}


def health_findings(fleet: Status) -> Iterator[Finding]:
    """The same for `doctor`: what makes a worker unready is a problem."""
    for index, report in _ill(fleet):
        level: Level = "problem" if report.critical and report.status == "unhealthy" else "warning"
        said = f"worker {index} says: {report.name} is {report.status}"
        yield Finding("health", level, f"{said}: {report.reason}" if report.reason else said)


def _ill(fleet: Status) -> Iterator[tuple[int, IndicatorReport]]:
    for worker in fleet.workers:
        yield from ((worker.index, report) for report in _ill_of(worker))


def _ill_of(worker: WorkerStatus) -> Sequence[IndicatorReport]:
    try:
        health = msgspec.convert(worker.details.get("health"), HealthReport | None)
    except msgspec.ValidationError:  # of a newer version
        return ()
    return () if health is None else health.ill
