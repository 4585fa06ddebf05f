"""Listings, for people and for programs, of a project in which something has happened."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from workfleet.model.jobs import JobRecord
from workfleet.ports.stores import Store

from .conftest import Project, clean, command, make_project


def test_queues_with_their_counts(worked: Project) -> None:
    code, out, err = worked("queues", "ls")
    assert (code, err) == (0, "")
    head, *rows = [line.split() for line in out.splitlines()]
    titles = "QUEUE WAITING PRIORITIZED DELAYED RETRYING ACTIVE COMPLETED FAILED STATE LISTENING"
    assert head == titles.split()
    assert ["greetings", "0", "0", "1", "0", "0", "1", "2", "nobody"] in rows
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    documents = {document["queue"]: document for document in worked("queues", "ls", "--json").documents}
    assert {name: value for name, value in documents["greetings"].items() if value} == {
        "queue": "greetings",
        "delayed": 1,
        "completed": 1,
        "failed": 2,
    }


def test_the_queue_of_the_health_check_is_nobodys_to_listen_to(project: Project) -> None:
    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id=queue, queue=queue, name="n") for queue in ("shop-health", "other")])

    project.in_store(fill)
    rows = {line.split()[0]: line for line in project("queues", "ls").out.splitlines()}
    assert rows["shop-health"].endswith("  health check")
    assert rows["other"].endswith("  nobody")


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--queue", "greetings"), ["late", "refused", "broken", "done"]),
        (("--state", "failed"), ["refused", "broken"]),
        (("--state", "failed", "--state", "delayed"), ["late", "refused", "broken"]),
        (("--name", "greet", "--limit", "2"), ["late", "broken"]),
        (("--queue", "nowhere"), []),
        (("--text", "ADA", "--tag", "none"), []),
        (("--text", "ADA", "--queue", "greetings"), ["done"]),
        (("--text", "is there"), ["broken"]),
        (("--older-than", "1d"), []),
        (("--newer-than", "2020-01-01T00:00Z", "--queue", "greetings", "--all"), ["late", "refused", "broken", "done"]),
        (("--group", "g"), []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_jobs_newest_first_with_filters(filters: tuple[str, ...], ids: list[str], worked: Project) -> None:
    ran = worked("jobs", "ls", *filters, "--json")
    assert ran.code == 0
    assert [document["id"] for document in ran.documents] == ids
    assert ("there are more than these 2" in ran.err) is ("--limit" in filters)
    table = worked("jobs", "ls", *filters).out.splitlines()
    assert [line.split()[0] for line in table[1:]] == ids
    assert table[0].startswith("ID") if ids else table == ["no jobs"]


def test_all_without_a_limit_and_in_pages(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id=f"{number:04}", queue="q", name="n") for number in range(2_500)])

    project.in_store(fill)
    ran = project("jobs", "ls", "--all", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert sorted(document["id"] for document in ran.documents) == [f"{number:04}" for number in range(2_500)]
    assert len(project("jobs", "ls", "--all").out.splitlines()) == 2_501
    few = project("jobs", "ls", "--limit", "2000", "--json")
    assert len(few.documents) == 2_000
    assert few.err == "there are more than these 2000: --limit or --all shows more\n"


@pytest.mark.parametrize("option", ["--queue", "--name", "--text"])
def test_a_filter_with_a_byte_that_is_no_text(option: str, worked: Project) -> None:
    code, out, err = worked.process("jobs", "ls", option, "\udcff")
    assert (code, out) == (2, "")
    assert "it is no Unicode text, which no job has" in err


def test_the_table_of_jobs_says_why_and_when(worked: Project) -> None:
    rows = {line.split()[0]: line for line in worked("jobs", "ls", "--queue", "greetings").out.splitlines()}
    assert rows["broken"].split()[1:5] == ["greetings", "greet", "failed", "1"]
    assert rows["broken"].endswith("ValueError: nobody\\x1b[31m is there")
    assert "not today" in rows["refused"]
    assert " due 20" in rows["late"]


def test_a_job_as_a_document(worked: Project) -> None:
    (done,) = worked("jobs", "show", "done", "--json").documents
    assert (done["state"], done["payload"], done["result"]) == ("completed", {"name": "Ada", "times": 2}, "AdaAda")
    assert done["logs"] == ["hello Ada"]
    assert [attempt["outcome"] for attempt in done["history"]] == ["completed"]
    times = [datetime.fromisoformat(done[name]) for name in ("created", "started", "finished")]
    assert all(first <= second for first, second in pairwise(times))
    assert times[0].tzinfo == UTC

    (broken,) = worked("jobs", "show", "broken", "--json").documents
    failure = {"code": broken["failure"]["code"], "type": "ValueError", "message": "nobody\x1b[31m is there"}
    assert broken["failure"] == failure
    (attempt,) = broken["history"]
    assert attempt["failure"].pop("traceback").startswith("Traceback")
    assert attempt["failure"] == failure


def test_a_job_for_a_person(worked: Project) -> None:
    code, out, err = worked("jobs", "show", "broken")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    facts = dict(line.split("  ", 1) for line in out.split("\n\n")[0].splitlines())
    assert {name: value.strip() for name, value in facts.items()} == {
        "job": "broken",
        "name": "greet",
        "queue": "greetings",
        "state": "failed",
        "failure": "ValueError: nobody\\x1b[31m is there",
        "attempts": "1 made",
    }
    sections = {part.splitlines()[0]: part.splitlines()[1:] for part in out.split("\n\n")[1:]}
    assert list(sections) == ["payload", "timeline", "traceback", "logs"]
    assert sections["payload"] == ["  {", '    "name": "nobody"', "  }"]
    enqueued, ready, attempt, finished = sections["timeline"]
    assert "  enqueued " in enqueued
    assert ready.endswith("  ready at once")
    assert "  attempt 1 on " in attempt
    assert attempt.endswith(": ValueError: nobody\\x1b[31m is there")
    assert "  failed " in finished
    assert sections["logs"] == ["  hello nobody"]
    assert worked("jobs", "show", "done").out.rstrip().endswith('result\n  "AdaAda"')
    assert "  due in 23h" in worked("jobs", "show", "late").out


def test_a_job_that_is_not_there_exits_4(worked: Project) -> None:
    code, out, err = worked("jobs", "show", "nothing")
    assert (code, out) == (4, "")
    assert err.startswith("Error: there is no job 'nothing'")


def test_schedules_with_when_and_what(worked: Project) -> None:
    code, out, _ = worked("schedules", "ls")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split() == ["NAME", "WHEN", "NEXT", "LAST", "RAN", "FIRED", "STATE", "DOES"]
    by_name = {row.split()[0]: row for row in rows}
    assert set(by_name) == {"nightly", "off"}
    assert "cron 30 2 * * * (Europe/Berlin)" in by_name["nightly"]
    assert by_name["nightly"].split()[-2:] == ["on", "nightly"]
    assert "every 1h" in by_name["off"]
    assert by_name["off"].split()[-2:] == ["disabled", "switched_off"]
    documents = {document["name"]: document for document in worked("schedules", "ls", "--json").documents}
    assert documents["nightly"]["cron"] == "30 2 * * *"
    assert documents["nightly"]["next_due"].endswith("Z")
    assert (documents["off"]["enabled"], documents["off"]["next_due"]) == (False, None)


def test_the_next_slots_in_order_with_local_time_and_daylight_saving(worked: Project) -> None:
    documents = worked("schedules", "next", "-n", "400", "--json").documents
    assert len(documents) == 400
    assert {document["schedule"] for document in documents} == {"nightly"}
    assert all(first["due"] < second["due"] for first, second in pairwise(documents))
    local = [datetime.fromisoformat(document["local"]) for document in documents]
    assert [at.isoformat() for at in local if (at.hour, at.minute) != (2, 30)] == [
        at.isoformat() for at in local if (at.month, at.hour, at.minute) == (3, 3, 0)
    ]
    notes = {document["note"] for document in documents}
    assert any("02:30 does not exist that day" in note for note in notes)
    assert all(note.endswith("up to 1m later") for note in notes)
    table = worked("schedules", "next", "nightly", "-n", "2").out.splitlines()
    assert table[0].split() == ["DUE", "LOCAL", "IN", "SCHEDULE", "NOTE"]
    assert len(table) == 3
    assert worked("schedules", "next", "off").out == "nothing is due\n"
    code, out, err = worked("schedules", "next", "nothing")
    assert (code, out) == (4, "")
    assert "Known schedules: nightly, off" in err


def test_listings_work_as_processes_of_their_own(worked: Project) -> None:
    for arguments in (("queues", "ls"), ("schedules", "ls", "--json")):
        ran = worked.process(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == worked(*arguments).out


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}], ids=str)
def test_on_a_terminal_the_last_column_fits_and_ids_are_whole(environ: dict[str, str], worked: Project) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 84, 0, 0))
    arguments = command("jobs", "ls", "--state", "failed")
    environ = clean({"TERM": "xterm-256color", **environ})
    process = subprocess.Popen(arguments, cwd=worked.folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = _read_all(ours).decode()
    assert process.wait(30) == 0
    assert ("\x1b[31mfailed" in shown) is ("NO_COLOR" not in environ)
    lines = re.sub(r"\x1b\[[0-9;]*m|\r", "", shown).split("\n")
    (row,) = [line for line in lines if line.startswith("broken ")]
    assert len(row) == 84
    assert row.endswith("…")


def _read_all(fd: int) -> bytes:
    read = b""
    with os.fdopen(fd, "rb", buffering=0) as terminal:
        try:
            while chunk := terminal.read(4096):
                read += chunk
        except OSError:  # the other end is closed
            pass
    return read
