"""`jobs explain`: of a job in every condition."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workfleet.model.jobs import Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.stores import ClaimRequest, Store, Want

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
    assert document == {"id": "waits", "queue": "w", "name": "send", "state": "waiting"}
    assert [reason["code"] for reason in reasons] == ["paused", "no_worker"]
    (document,) = project("jobs", "explain", "runs", "--json").documents
    assert document["reasons"] == []


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
