"""`queues show|pause|resume|purge`, `workers …` and `schedules remove`."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.model.fleet import ProcessIdentity, WorkerRecord
from workfleet.model.jobs import JobRecord
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store
from workfleet.supervision.identity import boot_id, own_identity
from workfleet.testing.contracts.harness import beat

from .conftest import Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    project.in_store(fill)
    return project


async def fill(store: Store) -> None:
    jobs = [JobRecord(id=f"a{number}", queue="mails", name="send", group="acme") for number in range(3)]
    jobs += [JobRecord(id="b1", queue="mails", name="send", group="bolt"), JobRecord(id="c1", queue="mails", name="x")]
    await store.jobs.enqueue([*jobs, JobRecord(id="later", queue="mails", name="send", delay_ms=3_600_000)])
    assert await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("mails", 1),)))


def facts(out: str) -> dict[str, str]:
    lines = out.split("\n\n", maxsplit=1)[0].splitlines()
    return {name.strip(): value.strip() for name, value in (line.split("  ", 1) for line in lines)}


def test_a_queue_with_its_limits_groups_and_listeners(project: Project) -> None:
    limits = QueueLimits(
        concurrency=5,
        rate=Rate(100, 60_000),
        group=GroupLimits(concurrency=2),
        groups={"acme": GroupLimits(weight=3)},
    )

    async def more(store: Store) -> None:
        await store.queues.set_limits({"mails": limits})
        await store.fleet.register(WorkerRecord(id="here", identity=own_identity(), queues=("mails",)))
        await store.fleet.register(WorkerRecord(id="other", identity=own_identity(), queues=("media",)))

    assert facts(project("queues", "show", "mails").out)["workers"] == "none listens to it"
    project.in_store(more)
    assert project("queues", "pause", "mails").out == "mails is paused\n"
    ran = project("queues", "show", "mails")
    assert (ran.code, ran.err) == (0, "")
    told = facts(ran.out)
    assert told.pop("oldest").startswith("ready ")
    assert told == {
        "queue": "mails",
        "state": "paused: `workfleet queues resume` ends it",
        "limits": "5 at once, 100 in 1m",
        "each group": "2 at once",
        "group acme": "3 in a turn",
        "workers": "here",
        "groups": "(none) 1, acme 2, bolt 1" if "(none) 1" in told["groups"] else "acme 3, bolt 1",
    }
    assert ran.out.splitlines()[-1].split() == ["mails", "4", "0", "1", "0", "1", "0", "0", "paused"]
    (document,) = project("queues", "show", "mails", "--json").documents
    assert (document["paused"], document["workers"], document["waiting"]) == (True, ["here"], 4)
    assert sum(document["ready_groups"].values()) == 4
    assert document["limits"]["rate"] == {"limit": 100, "per_ms": 60_000}


def test_a_queue_without_jobs_that_the_application_knows_and_one_that_nobody_does(project: Project) -> None:
    assert facts(project("queues", "show", "greetings").out)["state"] == "on"
    ran = project("queues", "show", "nope")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == "Error: there is no queue 'nope'. Known queues: mails\n"


def test_pausing_holds_every_job_back_until_it_is_resumed(project: Project) -> None:
    async def claim(store: Store) -> int:
        return len(await store.jobs.claim(ClaimRequest("w1", "t2", 30_000, (Want("mails", 1),))))

    assert project("queues", "pause", "mails") == (0, "mails is paused\n", "")
    assert project("queues", "pause", "mails").out == "mails was paused already\n"
    rows = {line.split()[0]: line.split()[-2:] for line in project("queues", "ls").out.splitlines()}
    assert (rows["mails"], rows["greetings"]) == (["paused", "nobody"], ["0", "nobody"])
    (mails,) = [each for each in project("queues", "ls", "--json").documents if each["queue"] == "mails"]
    assert mails["paused"] is True
    assert project("jobs", "show", "a1", "--json").documents[0]["waits_for"][0] == (
        "queue 'mails' to be resumed: it is paused"
    )
    assert project.in_store(claim) == 0
    assert project("queues", "resume", "mails").out == "mails is on again\n"
    assert project("queues", "resume", "mails").out == "mails was not paused\n"
    assert project.in_store(claim) == 1
    typo = project("queues", "pause", "mials")
    assert typo == (0, "mials is paused\n", "mials has had no job yet: is the name right?\n")
    assert "mials" in project("queues", "ls").out


def test_what_is_done_to_queues_as_documents(project: Project) -> None:
    def told(*arguments: str) -> object:
        (document,) = project("queues", *arguments, "--json").documents
        return document

    assert told("pause", "mails") == {"action": "pause", "queue": "mails", "changed": True}
    assert told("pause", "mails") == {"action": "pause", "queue": "mails", "changed": False}
    assert told("resume", "mails") == {"action": "resume", "queue": "mails", "changed": True}
    states = ["waiting", "delayed", "prioritized"]
    purge = {"action": "purge", "queue": "mails", "states": states}
    assert told("purge", "mails", "--dry-run") == {**purge, "dry_run": True, "matched": 5}
    assert told("purge", "mails", "--yes") == {**purge, "dry_run": False, "done": 5}
    assert told("purge", "mails", "--yes") == {**purge, "dry_run": False, "done": 0}


def test_purging_asks_and_leaves_what_runs(project: Project) -> None:
    assert project("queues", "purge", "nope").code == 4
    assert project("queues", "purge", "mails", "--dry-run").out == (
        "5 jobs of mails (waiting, delayed, prioritized) would be deleted\n"
    )
    refused = project("queues", "purge", "mails")
    assert refused.code == 2
    assert refused.err.startswith("Error: Delete 5 jobs of mails (waiting, delayed, prioritized)? Nobody can be asked")
    assert project.typing("n\n", "queues", "purge", "mails").code == 1
    assert project("queues", "purge", "mails", "--state", "failed", "--yes").out == "0 jobs deleted\n"
    assert project("queues", "purge", "mails", "--state", "delayed", "--yes").out == "1 job deleted\n"
    assert project.typing("y\n", "queues", "purge", "mails").out == "4 jobs deleted\n"

    async def left(store: Store) -> list[str]:
        return [job.state.value for job in await store.jobs.find(JobQuery())]

    assert project.in_store(left) == ["active"]


# ---- workers


async def fleet(store: Store) -> None:
    here = own_identity()
    gone = ProcessIdentity(here.host, boot_id(), here.pid, "0")
    far = ProcessIdentity("elsewhere", "boot", 1, "0")
    for worker, identity in (("here", here), ("gone", gone), ("far", far)):
        await store.fleet.register(WorkerRecord(id=worker, identity=identity, queues=("mails", "x"), release="7"))
    await beat(store, "here", active=3)


def workers(project: Project) -> dict[str, str]:
    return {each["id"]: each["state"] for each in project("workers", "ls", "--json").documents}


def test_workers_and_whether_they_live(project: Project) -> None:
    assert project("workers", "ls") == (0, "no workers\n", "")
    assert project("workers", "stop", "--all") == (0, "no workers\n", "")
    project.in_store(fleet)
    head, *rows = [line.split() for line in project("workers", "ls").out.splitlines()]
    assert head == ["ID", "HOST", "PROCESS", "STATE", "ACTIVE", "SEEN", "STARTED", "RELEASE", "QUEUES"]
    identity = own_identity()
    by_id = {row[0]: row for row in rows}
    assert by_id["here"][1:5] == [identity.host, str(identity.pid), "on", "3"]
    assert by_id["here"][-3:] == ["7", "mails,", "x"]
    assert workers(project) == {"here": "on", "gone": "gone", "far": "on"}
    (here,) = [each for each in project("workers", "ls", "--json").documents if each["id"] == "here"]
    assert {name: here[name] for name in ("pid", "active", "queues", "release", "instruction")} == {
        "pid": identity.pid, "active": 3, "queues": ["mails", "x"], "release": "7", "instruction": None,
    }  # fmt: skip


def instructions(project: Project) -> dict[str, str | None]:
    async def look(store: Store) -> dict[str, str | None]:
        return {worker.id: worker.instruction for worker in await store.fleet.workers()}

    return project.in_store(look)


def test_workers_are_told(project: Project) -> None:
    project.in_store(fleet)
    missing = project("workers", "stop", "here", "nope")
    assert missing.code == 4
    assert missing.err.startswith("Error: there is no worker nope. Known workers: far, gone, here. Nothing was done")
    assert project("workers", "quiet", "here", "--dry-run").out == "1 worker would be told to claim no more jobs\n"
    assert project("workers", "stop", "--all").err.startswith("Error: Stop 2 workers, all that the store knows? Nobody")
    assert project.typing("n\n", "workers", "recycle", "--all").code == 1
    assert set(instructions(project).values()) == {None}
    assert project("workers", "quiet", "here").out == "1 worker told to claim no more jobs\n"
    assert instructions(project) == {"here": "quiet", "far": None, "gone": None}
    assert workers(project)["here"] == "quiet"
    assert project("workers", "quiet", "--undo", "here").out == "1 worker told to go on\n"
    assert instructions(project)["here"] is None
    assert project.typing("y\n", "workers", "recycle", "--all").out.startswith("2 workers told to let their jobs end,")
    assert instructions(project) == {"here": "recycle", "far": "recycle", "gone": None}
    assert project("workers", "stop", "far", "--yes").code == 0
    assert instructions(project)["far"] == "stop"


def test_what_workers_are_told_as_documents(project: Project) -> None:
    assert project("workers", "stop", "--all", "--json").documents == []
    project.in_store(fleet)
    assert project("workers", "quiet", "here", "far", "--dry-run", "--json").documents == [
        {"action": "quiet", "dry_run": True, "worker": worker, "done": False} for worker in ("here", "far")
    ]
    for action, arguments in (
        ("quiet", ["quiet"]), ("undo", ["quiet", "--undo"]), ("recycle", ["recycle"]), ("stop", ["stop"]),
    ):  # fmt: skip
        assert project("workers", *arguments, "here", "--json").documents == [
            {"action": action, "dry_run": False, "worker": "here", "done": True}
        ]
    assert instructions(project) == {"here": "stop", "far": None, "gone": None}


# ---- schedules


def test_removing_a_schedule_that_no_code_defines(project: Project) -> None:
    job = JobRecord(id="", queue="q", name="n")

    async def schedules(store: Store) -> None:
        def record(name: str, *, from_code: bool) -> ScheduleRecord:
            return ScheduleRecord(name=name, timing=Every(60_000), fingerprint="f", job=job, from_code=from_code)

        await store.schedules.merge([record("old", from_code=True)])
        await store.schedules.merge([record("code", from_code=True)])
        assert await store.schedules.put(record("added", from_code=False), replace=False)

    async def names(store: Store) -> list[str]:
        return [record.name for record in await store.schedules.all()]

    project.in_store(schedules)
    code = project("schedules", "remove", "code", "--yes")
    assert (code.code, code.out) == (2, "")
    assert code.err.startswith("Error: the schedule 'code' is defined in code: remove it there")
    assert project("schedules", "remove", "nope", "--yes").code == 4
    assert project("schedules", "remove", "old", "--dry-run").out == "old would be removed\n"
    assert project("schedules", "remove", "old").code == 2
    assert project.typing("\n", "schedules", "remove", "old") == (
        1, "", "Remove the schedule old? [y/N] nothing was done\n",
    )  # fmt: skip
    assert project.in_store(names) == ["added", "code", "old"]
    assert project.typing("y\n", "schedules", "remove", "old").out == "old is removed\n"
    removed = {"action": "remove", "schedule": "added"}
    assert project("schedules", "remove", "added", "--dry-run", "--json").documents == [
        {**removed, "dry_run": True, "done": False}
    ]
    assert project("schedules", "remove", "added", "--yes", "--json").documents == [
        {**removed, "dry_run": False, "done": True}
    ]
    assert project.in_store(names) == ["code"]
