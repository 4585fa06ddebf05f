"""What `status` and `doctor` make of the health that workers tell."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.conftest import Project
from workfleet.app.status import Status, SupervisorFacts, WorkerStatus, default_status_file, write_status
from workfleet.cli.health import health_findings, ill_rows
from workfleet.clock import SystemClock
from workfleet.health.indication import HealthReport, IndicatorReport
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.stores.open import open_store
from workfleet.supervision.identity import own_identity


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


def test_workers_that_say_the_same_share_a_row() -> None:
    same = told(("store", "unhealthy", True, "refused"))
    other = told(("store", "unhealthy", True, "no answer"))
    assert ill_rows(fleet(same, other, same)) == [
        ["store", "0, 2", "unhealthy", "yes", "refused"],
        ["store", "1", "unhealthy", "yes", "no answer"],
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


def written(project: Project, **changes: Any) -> None:
    """The status file of a fleet of this machine whose supervisor is this process."""
    own, clock = own_identity(), SystemClock()
    facts: dict[str, Any] = {
        "app": "shop", "host": socket.gethostname(), "supervisor": SupervisorFacts(own.pid, own.started, own.boot_id),
        "started_ms": 1, "written_ms": clock.now_ms(), "written_mono_ms": int(clock.monotonic() * 1000),
        "state": "ready", "ever_ready": True, "workers": [
            WorkerStatus(index=0, id="w0", pid=1, state="ready", store_ok_age_ms=1, beat_age_ms=1),
        ],
    }  # fmt: skip
    write_status(default_status_file(project.folder, "shop"), Status(**{**facts, **changes}))


SILENT = WorkerStatus(index=0, id="w0", pid=1, state="ready", store_ok_age_ms=1, beat_age_ms=40_000)
UNREADY = WorkerStatus(
    index=0, id="w0", pid=1, state="ready", store_ok_age_ms=1, beat_age_ms=1, unready=("gate: shut",)
)
LATE_MS = 60_000


@pytest.mark.parametrize(
    ("changes", "fleet", "finding"),
    [
        ({}, "ready, since", ("ok", "it is ready")),
        (
            {"workers": [SILENT]},
            "not ready (worker 0: event-loop blocked: ",
            ("problem", "it is not ready: worker 0: event-"),
        ),
        (
            {"workers": [UNREADY]},
            "not ready (worker 0: gate: shut), ",
            ("problem", "it is not ready: worker 0: gate: shut"),
        ),
        (
            {"state": "draining", "reason": "stopped by SIGTERM"},
            "draining (stopped by SIGTERM), ",
            ("warning", "it is not"),
        ),
        (
            {"state": "stopped", "reason": "1 problem:\n  - a"},
            "not running: it has stopped: 1 problem: - a\n",
            ("warning", "it does not run on this machine: it has stopped: 1 problem: - a"),
        ),
        (
            {"written_mono_ms": int(SystemClock().monotonic() * 1000) - LATE_MS},
            "not running: its supervisor (process ",
            ("problem", "it does not run on this machine: its supervisor (process "),
        ),
        (
            {"supervisor": SupervisorFacts(1, "1", "an earlier boot")},
            "not running: its status file is from before this machine was started, or of another one (",
            ("problem", "it does not run on this machine: its status file is from before"),
        ),
    ],
)
def test_status_and_doctor_say_what_the_probe_says(
    tmp_path: Path, changes: dict[str, Any], fleet: str, finding: tuple[str, str]
) -> None:
    project = Project(tmp_path)
    project.write("workfleet.yaml", "app: app.py\n")
    project.write("app.py", f"from workfleet import App\n\napp = App('shop', store='sqlite:///{tmp_path}/shop.db')\n")
    asyncio.run(put_overdue(f"sqlite:///{tmp_path}/shop.db", 0))
    (tmp_path / ".workfleet").mkdir(exist_ok=True)
    written(project, **changes)
    ready = project("probe", "ready").code == 0
    said = project("status").out
    assert f"fleet      {fleet}" in said
    (document,) = project("status", "--json").documents
    assert (document["running"] and document["not_ready"] is None) is ready
    doctor = project("doctor", "--json")
    (found,) = [each for each in doctor.documents if each["check"] == "fleet"]
    assert (found["level"], found["said"][: len(finding[1])]) == finding
    assert doctor.code == (1 if found["level"] == "problem" else 0)


def test_a_blocked_worker_is_named_where_another_one_makes_the_fleet_ready(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("workfleet.yaml", "app: app.py\n")
    project.write("app.py", f"from workfleet import App\n\napp = App('shop', store='sqlite:///{tmp_path}/shop.db')\n")
    asyncio.run(put_overdue(f"sqlite:///{tmp_path}/shop.db", 0))
    (tmp_path / ".workfleet").mkdir(exist_ok=True)
    well = WorkerStatus(index=1, id="w1", pid=2, state="ready", store_ok_age_ms=1, beat_age_ms=4_000)
    starts = WorkerStatus(index=2, id="w2", pid=3, state="starting", beat_age_ms=60_000)
    written(project, workers=[SILENT, well, starts])
    rows = {line.split()[0]: line for line in project("status").out.split("\n\n")[1].splitlines()[1:]}
    assert re.search(r"  its event loop is blocked: nothing is heard of it for 4\d s$", rows["0"])
    assert "blocked" not in rows["2"], "one that has not begun cannot be"
    doctor = project("doctor", "--json")
    ill = [each for each in doctor.documents if each["check"] == "health"]
    assert (ill[0]["level"], ill[0]["said"][:40]) == ("warning", "worker 0: its event loop is blocked: not")
    assert doctor.code == 0


def test_in_an_outage_the_stores_words_stand_once_and_a_death_has_its_age(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("workfleet.yaml", "app: app.py\n")
    project.write("app.py", f"from workfleet import App\n\napp = App('shop', store='sqlite:///{tmp_path}/shop.db')\n")
    asyncio.run(put_overdue(f"sqlite:///{tmp_path}/shop.db", 0))
    (tmp_path / ".workfleet").mkdir(exist_ok=True)
    error = "store redis://db:6379: refused. Is it up?"
    details = told(("store", "unhealthy", True, error), ("gate", "unhealthy", True, "shut"))
    workers = [
        WorkerStatus(
            index=index, id=f"w{index}", pid=1, state="ready", store_ok_age_ms=1, beat_age_ms=1, store_error=error,
            unready=("gate: shut", "pool images has failed"), details=details, running=("never shown (1)",),
            last_exit="was killed by SIGKILL", last_exit_age_ms=125_000,
        )
        for index in range(3)
    ]  # fmt: skip
    written(project, workers=workers)
    said = project("status").out
    assert said.count(error) == 1
    assert said.count("gate: shut") == 3  # why it is not ready, and nowhere else
    rows = said.split("\n\n")[1].splitlines()[1:]
    note = "pool images has failed; store not reached; before: was killed by SIGKILL 2m ago"
    assert [row.endswith(f"  {note}") for row in rows] == [True] * 3


def test_status_and_doctor_say_what_a_blocked_worker_runs(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("workfleet.yaml", "app: app.py\n")
    project.write("app.py", f"from workfleet import App\n\napp = App('shop', store='sqlite:///{tmp_path}/shop.db')\n")
    asyncio.run(put_overdue(f"sqlite:///{tmp_path}/shop.db", 0))
    (tmp_path / ".workfleet").mkdir(exist_ok=True)
    written(project, workers=[msgspec.structs.replace(SILENT, running=("mail.send (7)",))])
    row = project("status").out.split("\n\n")[1].splitlines()[1]
    assert re.search(r" nothing is heard of it for 4\d s, while it runs mail\.send \(7\)$", row)
    assert "while it runs mail.send (7)" in project("doctor").out
