"""What `status` and `doctor` make of the health that workers tell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.conftest import Project
from workfleet.app.status import Status, SupervisorFacts, WorkerStatus
from workfleet.cli.health import health_findings, ill_rows
from workfleet.clock import SystemClock
from workfleet.health.indication import HealthReport, IndicatorReport
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.stores.open import open_store


def fleet(*details: dict[str, Any]) -> Status:
    workers = [
        WorkerStatus(index=index, id=f"w{index}", pid=1, state="ready", details=each)
        for index, each in enumerate(details)
    ]
    return Status(
        app="shop", host="h", supervisor=SupervisorFacts(1, "1", "b"), started_ms=1, written_ms=1, written_mono_ms=1,
        state="ready", ever_ready=True, workers=workers,
    )  # fmt: skip


def told(*said: tuple[str, str, bool, str]) -> dict[str, Any]:
    reports = tuple(
        IndicatorReport(name=name, status=status, critical=critical, reason=reason, facts={}, took_ms=1)  # type: ignore[arg-type]
        for name, status, critical, reason in said
    )
    report = HealthReport(
        status="degraded", reason="", version="1", uptime_ms=1, checked_ms=1, took_ms=1, indicators=reports
    )
    return {"health": msgspec.to_builtins(report)}


FLEET = fleet(
    told(("disk", "degraded", False, "half full"), ("memory", "healthy", False, "")),
    told(("redis", "unhealthy", True, "refused"), ("own", "unhealthy", False, "")),
    {},
    {"health": {"of": "a newer version"}},
)


def test_each_ill_indicator_has_a_row() -> None:
    assert ill_rows(FLEET) == [
        ["disk", "0", "degraded", "no", "half full"],
        ["redis", "1", "unhealthy", "yes", "refused"],
        ["own", "1", "unhealthy", "no", ""],
    ]


def test_what_makes_a_worker_unready_is_a_problem() -> None:
    assert [(each.check, each.level, each.said) for each in health_findings(FLEET)] == [
        ("health", "warning", "worker 0 says: disk is degraded: half full"),
        ("health", "problem", "worker 1 says: redis is unhealthy: refused"),
        ("health", "warning", "worker 1 says: own is unhealthy"),
    ]


async def put_overdue(store_url: str, count: int) -> None:
    clock = SystemClock()
    store = await open_store(store_url, app="shop", clock=clock, create=True)
    for number in range(count):
        record = ScheduleRecord(
            name=f"s{number}", timing=Every(60_000), fingerprint="f", job=JobRecord(id="", queue="q", name="n"),
            next_due_ms=clock.now_ms() - (count - number) * 60_000,
        )  # fmt: skip
        await store.schedules.put(record, replace=True)
    await store.close()


def test_doctor_names_schedules_that_are_overdue(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("workfleet.yaml", "app: app.py\n")
    project.write("app.py", f"from workfleet import App\n\napp = App('shop', store='sqlite:///{tmp_path}/shop.db')\n")
    asyncio.run(put_overdue(f"sqlite:///{tmp_path}/shop.db", 7))
    (found,) = [each for each in project("doctor", "--json").documents if each["check"] == "schedules"]
    assert (found["level"], found["said"]) == (
        "warning", "overdue: s0 by 7m, s1 by 6m, s2 by 5m, s3 by 4m, s4 by 3m and 2 more",
    )  # fmt: skip
