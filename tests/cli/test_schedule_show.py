"""`schedules show`, and what `ls --json` tells of a schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.model.outcome import Outcome, Settlement
from workfleet.model.schedules import Fire, ScheduleRecord
from workfleet.model.timing import Every
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store

from .conftest import Project, make_project

HOUR_MS = 3_600_000
ADA = '{"name": "Ada"}'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an empty store."""
    project = make_project(tmp_path)
    project.make_store("shop")
    return project


def facts(out: str) -> dict[str, str]:
    lines = out.split("\n\n", maxsplit=1)[0].splitlines()
    return {name.strip(): value.strip() for name, value in (line.split("  ", 1) for line in lines)}


def test_show_tells_everything_of_one_that_was_added(project: Project) -> None:
    added = project(
        *("schedules", "add", "shown", "greet", ADA, "--cron", "30 2 * * *", "--timezone", "Europe/Berlin"),
        *("--start", "2090-01-01", "--skip-on", "2090-01-02", "--jitter", "2m", "--missed", "catch_up(3)"),
        *("--attempts", "4", "--backoff", "10s", "--timeout", "none", "--retry", "KeyError=none"),
        *("--expires", "1h", "--description", "a greeting", "--dst-gap", "skip"),
    )
    assert added.code == 0
    ran = project("schedules", "show", "shown", "-n", "2")
    assert (ran.code, ran.err) == (0, "")
    told = facts(ran.out)
    assert told.pop("next").startswith("2090-01-01T01:30:00Z, in ")
    assert told == {
        "schedule": "shown",
        "about": "a greeting",
        "state": "on",
        "defined": "at run time",
        "does": "job greet on queue greetings",
        "payload": '{"name":"Ada"}',
        "when": "cron 30 2 * * * (Europe/Berlin) from 2089-12-31T23:00:00Z without 1 date",
        "clock change": "dst_gap skip, dst_overlap first",
        "not on": "2090-01-02",
        "jitter": "up to 2m",
        "overlap": "skip",
        "missed": "catch_up(3)",
        "expires": "when it has waited 1h",
        "runs": "attempts 4, backoff fixed 10s, no timeout, after KeyError no retry",
        "counts": "fired 0",
    }
    head, *slots = ran.out.split("\n\n")[1].splitlines()
    assert head.split() == ["DUE", "LOCAL", "IN", "SCHEDULE", "NOTE"]
    assert [slot.split()[0] for slot in slots] == ["2090-01-01T01:30:00Z", "2090-01-03T01:30:00Z"]
    assert len(project("schedules", "show", "shown", "-n", "0").out.split("\n\n")) == 1


def test_show_as_json_has_what_the_listing_has_and_more(project: Project) -> None:
    arguments = (
        "--every",
        "6h",
        "--offset",
        "1h",
        "--start",
        "2090-01-01",
        "--end",
        "2090-01-01T12:00",
        "--jitter",
        "1m",
    )
    assert project("schedules", "add", "whole", "greet", ADA, "--attempts", "2", *arguments).code == 0
    (document,) = project("schedules", "show", "whole", "--json").documents
    (listed,) = [each for each in project("schedules", "ls", "--json").documents if each["name"] == "whole"]
    own = {name: document.pop(name) for name in document.keys() - listed.keys()}
    assert document == listed == {
        "name": "whole", "provider": None, "method": None, "description": "", "enabled": True, "run_on_start": None,
        "type": "interval", "target": "queue", "cron": None, "interval": "6h", "timezone": None, "queue": "greetings",
        "queue_job": "greet", "running": False, "next_due": "2090-01-01T01:00:00Z", "last_slot": None,
        "last_outcome": None, "paused": False, "orphaned": False, "fired": 0, "skipped": 0, "missed": 0,
        "coalesced": 0, "late": 0, "last_reason": None, "from_code": False, "offset": "1h",
        "start": "2090-01-01T00:00:00Z", "end": "2090-01-01T12:00:00Z", "skip_on": [], "dst_gap": None,
        "dst_overlap": None, "overlap": "skip", "missed_policy": "once", "jitter": "1m", "expires": None,
        "overdue_ms": 0,
    }  # fmt: skip
    assert own == {
        "options": {"attempts": 2},
        "payload": {"name": "Ada"},
        "last_fired": None,
        "last_job": None,
        "last_run": None,
        "notes": [],
        "next": [
            {"schedule": "whole", "due": due, "local": None, "note": "up to 1m later"}
            for due in ("2090-01-01T01:00:00Z", "2090-01-01T07:00:00Z")
        ],
    }


def test_show_tells_of_one_in_code_and_of_what_became_of_its_slots(project: Project) -> None:
    why = "its run r1 is not finished"

    async def fill(store: Store) -> None:
        now = await store.now_ms()
        facts = {"provider": "Cleanup", "method": "tidy", "target": "inline", "run_on_start": "release"}
        every, job = Every(HOUR_MS, offset_ms=now % HOUR_MS), JobRecord(id="", queue="shop-schedules", name="tidy")
        tidy = ScheduleRecord(name="tidy", timing=every, fingerprint="f", job=job, facts=facts)
        tidy.next_due_ms = now - 2 * HOUR_MS
        await store.schedules.merge([tidy])
        skip = Fire(
            schedule="tidy",
            slot_ms=now - 2 * HOUR_MS,
            next_due_ms=now - HOUR_MS,
            job=None,
            skipped=1,
            reasons={"skipped": why},
        )
        (answer,) = await store.schedules.fire([skip])
        assert answer.kind == "skipped"

    project.in_store(fill)
    ran = project("schedules", "show", "tidy")
    told = facts(ran.out)
    assert (told["does"], told["defined"], told["on start"]) == ("Cleanup.tidy", "in code", "once per release")
    assert (told["state"], told["overdue"]) == ("overdue", "by 1h")
    assert "payload" not in told
    assert told["counts"] == "fired 0, skipped 1"
    assert told["last"].endswith(f", 2h ago, skipped: {why}")
    head, note = ran.out.split("\n\n")[1].splitlines()
    assert head.split() == ["SLOT", "WAS", "SLOTS", "FOUND", "BECAUSE"]
    assert note.split()[1:3] == ["skipped", "1"]
    assert note.endswith(why)
    (document,) = project("schedules", "show", "tidy", "--json").documents
    assert (document["from_code"], document["last_outcome"], document["last_reason"]) == (True, "skipped", why)
    assert HOUR_MS <= document["overdue_ms"] < 2 * HOUR_MS
    (note,) = document["notes"]
    assert (note["status"], note["count"], note["reason"]) == ("skipped", 1, why)


def test_show_tells_how_the_last_run_ended_for_fired_is_not_done(project: Project) -> None:
    assert project("schedules", "add", "tidy", "greet", ADA, "--every", "1h").code == 0
    assert "last run" not in facts(project("schedules", "show", "tidy").out)
    assert project("schedules", "show", "tidy", "--json").documents[0]["last_run"] is None

    async def fill(store: Store) -> None:
        now = await store.now_ms()
        ran = {"schedule": "tidy", "job_id": "j", "worker": "w", "started_ms": now - 130_000}
        rows = [
            LedgerRow(id="1", at_ms=now - 125_000, outcome="failed", attempt=1, error="OSError: the first", **ran),
            LedgerRow(id="2", at_ms=now - 120_000, outcome="failed", attempt=2, error="OSError: no\ndata", **ran),
            LedgerRow(id="3", at_ms=now, schedule="tidy", outcome="missed", error="it was not fired in time"),
        ]
        await store.ledger.record(rows, LedgerKeep(age_ms=HOUR_MS, count=10))

    project.in_store(fill)
    assert facts(project("schedules", "show", "tidy").out)["last run"] == (
        "failed (attempt 2) 2m ago: OSError: no\\ndata"
    )
    (document,) = project("schedules", "show", "tidy", "--json").documents
    assert (document["last_run"]["outcome"], document["last_run"]["attempt"]) == ("failed", 2)
    assert document["last_run"]["job"] == "j"


def test_the_listing_says_what_became_of_the_last_run(project: Project) -> None:
    async def fill(store: Store) -> None:
        now = await store.now_ms()
        every = Every(HOUR_MS, offset_ms=now % HOUR_MS)
        kept = ("fine", "broken", "waits", "gone", "never")
        jobs = {name: JobRecord(id=f"job-{name}", queue="q", name=name) for name in kept}
        records = [
            ScheduleRecord(
                name=name, timing=every, fingerprint="f", job=job, facts={"target": "queue"}, next_due_ms=now
            )
            for name, job in jobs.items()
        ]
        await store.schedules.merge(records)
        fires = [
            Fire(schedule=name, slot_ms=now, next_due_ms=now + HOUR_MS, job=job)
            for name, job in jobs.items()
            if name != "never"
        ]
        assert [answer.kind for answer in await store.schedules.fire(fires)] == ["fired"] * 4
        claimed = {job.name: job for job in await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 4),)))}
        done = Outcome(state=JobState.COMPLETED, code="completed")
        failed = Outcome(state=JobState.FAILED, code="timed_out")
        ends = {"fine": done, "broken": failed, "gone": done}
        await store.jobs.settle([Settlement(claimed[name].claim, outcome) for name, outcome in ends.items()])
        assert await store.jobs.delete(["job-gone"]) == [True]

    project.in_store(fill)
    head, *rows = project("schedules", "ls").out.splitlines()
    begin, end = head.index("RAN"), head.index("FIRED")
    assert {row.split()[0]: row[begin:end].strip(" 01") for row in rows} == {
        "fine": "completed",
        "broken": "timed_out",
        "waits": "active",
        "gone": "",
        "never": "",
    }
