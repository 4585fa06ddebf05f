"""`workfleet schedules history`: rows as a table and as documents."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.ports.stores import Store

from .conftest import Project, make_project

NOON_MS = round(datetime(2027, 3, 27, 12, tzinfo=UTC).timestamp() * 1000)
ROWS = [
    LedgerRow(
        id="1", at_ms=NOON_MS + 1_250, schedule="nightly", outcome="failed", slot_ms=NOON_MS, job_id="j1", attempt=1,
        started_ms=NOON_MS + 1_000, worker="w1", error="ValueError: \x1b[31mred\nsecond line",
    ),
    LedgerRow(
        id="2", at_ms=NOON_MS + 9_000, schedule="nightly", outcome="completed", slot_ms=NOON_MS, job_id="j1", attempt=2,
        started_ms=NOON_MS + 5_000, worker="w2",
    ),
    LedgerRow(
        id="3", at_ms=NOON_MS + 60_000, schedule="nightly", outcome="missed", slot_ms=NOON_MS + 30_000, worker="w1",
        error="nothing fired them", count=3,
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = make_project(tmp_path_factory.mktemp("history"))

    async def fill(store: Store) -> None:
        await store.ledger.record(ROWS, LedgerKeep(age_ms=10**13, count=100))

    made.in_store(fill)
    return made


def test_a_table_newest_first(project: Project) -> None:
    code, out, err = project("schedules", "history", "nightly")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        "ENDED SLOT OUTCOME ATTEMPT TOOK WORKER JOB BECAUSE".split(),
        "2027-03-27T12:01:00Z 2027-03-27T12:00:30Z missed (3 slots) w1 nothing fired them".split(),
        "2027-03-27T12:00:09Z 2027-03-27T12:00:00Z completed 2 4.0 s w2 j1".split(),
        r"2027-03-27T12:00:01Z 2027-03-27T12:00:00Z failed 1 250 ms w1 j1 ValueError: \x1b[31mred".split(),
    ]


def test_so_many_as_asked(project: Project) -> None:
    assert [row["outcome"] for row in project("schedules", "history", "nightly", "-n", "2", "--json").documents] == [
        "missed",
        "completed",
    ]
    code, _, err = project("schedules", "history", "nightly", "-n", "0")
    assert code == 2
    assert "-n" in err


def test_documents(project: Project) -> None:
    missed, completed, failed = project("schedules", "history", "nightly", "--json").documents
    assert completed == {
        "schedule": "nightly", "slot": "2027-03-27T12:00:00Z", "outcome": "completed", "at": "2027-03-27T12:00:09Z",
        "attempt": 2, "started": "2027-03-27T12:00:05Z", "ended": "2027-03-27T12:00:09Z", "duration_ms": 4_000,
        "worker": "w2", "job": "j1", "count": 1, "error": None,
    }  # fmt: skip
    assert failed["error"] == "ValueError: \x1b[31mred\nsecond line"
    assert (missed["attempt"], missed["started"], missed["ended"], missed["duration_ms"]) == (None,) * 4
    assert (missed["job"], missed["count"], missed["at"]) == (None, 3, "2027-03-27T12:01:00Z")


def test_a_schedule_without_history_and_an_unknown_one(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert project("run", "--until-idle", WORKER_HEARTBEAT_ENABLED="false").code == 0
    ran = project("schedules", "history", "off")
    assert (ran.code, ran.out) == (0, "nothing is recorded of off yet\n")
    assert project("schedules", "history", "off", "--json").documents == []
    ran = project("schedules", "history", "tock")
    assert ran.code == 4
    assert "there is no schedule 'tock'. Known schedules: nightly, off" in ran.err
