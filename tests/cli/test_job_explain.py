"""`jobs explain`: of a job in every condition."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from workfleet import JobType, SyncOutbox
from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store
from workfleet.supervision.identity import own_identity

from .conftest import Project, make_project, wait_for
from .running import running


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


async def fill(store: Store) -> None:
    ids = {"failed": "f", "runs": "r", "waits": "w", "later": "w"}
    for job_id, queue in ids.items():
        delay_ms = 3_600_000 if job_id == "later" else 0
        await store.jobs.enqueue([JobRecord(id=job_id, queue=queue, name="send", delay_ms=delay_ms)])
    (failed,) = await store.jobs.claim(ClaimRequest("w1", "t1", 30_000, (Want("f", 1),)))
    await store.jobs.claim(ClaimRequest("w1", "t2", 30_000, (Want("r", 1),)))
    outcome = Outcome(state=JobState.FAILED, code="raised", failure=Failure("raised", "no way", "OSError"))
    await store.jobs.settle([Settlement(failed.claim, outcome)])
    await store.queues.set_paused("w", paused=True)


def test_says_why_a_job_does_not_run_and_of_others_where_they_are(project: Project) -> None:
    project.in_store(fill)
    nobody = "  a worker that listens to queue 'w': none does"
    ran = project("jobs", "explain", "waits")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "send on queue w is waiting. It waits for", "  queue 'w' to be resumed: it is paused", nobody,
    ]  # fmt: skip
    first, its_time, worker = project("jobs", "explain", "later").out.splitlines()
    assert (first, worker) == ("send on queue w is delayed. It waits for", nobody)
    assert its_time.startswith("  its time, ")
    runs, failed = (re.sub(r"\d+s ago", "… ago", project("jobs", "explain", each).out) for each in ("runs", "failed"))
    assert runs == "send on queue r is active: it runs on w1, started … ago\n"
    assert failed == "send on queue f failed … ago: OSError: no way\n"


def test_as_a_document(project: Project) -> None:
    project.in_store(fill)
    (document,) = project("jobs", "explain", "waits", "--json").documents
    reasons = document.pop("reasons")
    unknown = dict.fromkeys(("worker", "started", "finished", "failure"))
    assert document == {"id": "waits", "queue": "w", "name": "send", "state": "waiting", **unknown}
    assert [reason["code"] for reason in reasons] == ["paused", "no_worker"]
    (document,) = project("jobs", "explain", "runs", "--json").documents
    assert (document["reasons"], document["worker"], document["finished"]) == ([], "w1", None)
    (shown,) = project("jobs", "show", "runs", "--json").documents
    assert document["started"] == shown["started"]
    (document,) = project("jobs", "explain", "failed", "--json").documents
    assert (document["worker"], document["failure"], document["reasons"]) == (None, "OSError: no way", [])
    assert document["finished"] is not None


def test_of_nobody_s_job(project: Project) -> None:
    project.in_store(fill)
    assert project("jobs", "explain", "nobody").code == 4


def test_of_a_name_that_no_worker_of_a_running_fleet_knows(project: Project) -> None:
    with running(project, "run") as run:
        wait_for(lambda: project("status").code == 0, "the fleet")
        assert project("enqueue", "greetings", "nonsense", "--id", "a").code == 0

        def reasons() -> list[str]:
            (document,) = project("jobs", "explain", "a", "--json").documents
            return [reason["code"] for reason in document["reasons"]]

        wait_for(lambda: reasons()[-1:] == ["no_handler"], "the reason")
        run.process.terminate()
        assert run.end()[0] == 0


OUTBOX_APP = """\
from workfleet import App, JobType, OutboxModule

MAIL = JobType("mail", int, None, queue="emails")
app = App("shop", modules=[OutboxModule(database="sqlite:///{folder}/application.db")])
"""


def test_of_a_job_that_is_still_in_the_outbox(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("workfleet.yaml", "app: app.py\n")
    project.write("app.py", OUTBOX_APP.replace("{folder}", str(tmp_path)))
    project.make_store("shop")
    outbox, mail = SyncOutbox("shop"), JobType("mail", int, None, queue="emails")
    with closing(sqlite3.connect(tmp_path / "application.db")) as database, database:
        outbox.create(database)
        for number in range(3):
            outbox.add(database, mail(number, id=f"m{number}"))
    first, waits = project("jobs", "explain", "m2").out.splitlines()
    assert first == "m2 is not in the store yet. It waits for"
    assert waits.startswith("  a worker with OutboxModule to move its row in the outbox sqlite:///")
    assert waits.endswith(" ago, behind 2 more")
    with closing(sqlite3.connect(tmp_path / "application.db")) as database, database:
        database.execute("UPDATE workfleet_outbox SET error = 'no JSON' WHERE id = 'm2'")
    (document,) = project("jobs", "explain", "m2", "--json").documents
    (reason,) = document.pop("reasons")
    assert (document.pop("id"), set(document.values())) == ("m2", {None})
    assert (reason["code"], reason["text"].endswith("which cannot be moved: no JSON")) == ("outbox", True)
    assert project("jobs", "explain", "m9").code == 4
    (tmp_path / "application.db").unlink()
    assert project("jobs", "explain", "m9").code == 3, "it may be there"


async def interrupt(store: Store) -> None:
    await store.jobs.enqueue([JobRecord(id="lost", queue="q", name="send")])
    await store.jobs.claim(ClaimRequest("w1", "t", 3_600_000, (Want("q", 1),)))
    await store.fleet.register(WorkerRecord(id="w1", identity=structs.replace(own_identity(), started="before")))


def test_of_an_active_job_whose_worker_is_gone(project: Project) -> None:
    project.in_store(interrupt)
    first, waits = project("jobs", "explain", "lost").out.splitlines()
    assert first.startswith("send on queue q is active: it is on w1, started ")
    assert first.endswith(" ago. It waits for")
    assert waits.startswith("  the end of its lease at ")
    assert waits.endswith(", to run again: its worker is gone")
