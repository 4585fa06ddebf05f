"""`schedules add|pause|resume`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workfleet.model.bounds import Bounds
from workfleet.model.jobs import RunOverrides
from workfleet.model.missed import CatchUp
from workfleet.model.policy import backoff_of, fixed
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import At, CronTiming, Every
from workfleet.ports.stores import Store

from .conftest import Project, make_project

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with an empty store; each test adds under names of its own."""
    project = make_project(tmp_path_factory.mktemp("schedules"))
    project.make_store("shop")
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    project.make_store("shop")
    return project


def record(project: Project, name: str) -> ScheduleRecord:
    async def look(store: Store) -> ScheduleRecord:
        return next(each for each in await store.schedules.all() if each.name == name)

    return project.in_store(look)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


ADA = '{"name": "Ada"}'


def test_add_keeps_the_job_and_says_when_it_is_due(project: Project) -> None:
    ran = project("schedules", "add", "hello", "greet", ADA, "--cron", "0 6 1 1 *")
    year = datetime.now(UTC).year + 1
    assert ran == (0, f"hello is added, due next {year}-01-01T06:00:00Z\n", "")
    stored = record(project, "hello")
    assert (stored.timing, stored.from_code) == (CronTiming("0 6 1 1 *"), False)
    assert (stored.job.queue, stored.job.name) == ("greetings", "greet")
    assert stored.job.payload == b'{"name":"Ada"}'


def test_add_takes_a_payload_from_standard_input_and_answers_as_json(shared: Project) -> None:
    ran = shared("schedules", "add", "piped", "greet", "-", "--every", "1h", "--json", stdin='{"name": "Bob"}')
    (document,) = ran.documents
    assert (document["name"], document["interval"], document["from_code"]) == ("piped", "1h", False)
    assert record(shared, "piped").job.payload == b'{"name":"Bob"}'


NOTHING_SAID = {
    "timing": Every(HOUR_MS),
    "job.run": RunOverrides(),
    "job.expires_after_ms": None,
    "job.priority": 0,
    "job.tags": (),
    "overlap": "skip",
    "missed": "once",
    "jitter_ms": 0,
    "enabled": True,
    "description": "",
}


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        (["--every", "1h", "--offset", "5m"], {"timing": Every(HOUR_MS, offset_ms=300_000)}),
        (["--at", "2090-01-01T00:00Z"], {"timing": At(ms("2090-01-01T00:00Z"))}),
        (["--at", "2090-01-01T00:00", "--timezone", "Asia/Tokyo"], {"timing": At(ms("2090-01-01T00:00+09:00"))}),
        (["--cron", "1 2 * * *", "--timezone", "Asia/Tokyo"], {"timing": CronTiming("1 2 * * *", "Asia/Tokyo")}),
        (
            ["--cron", "1 2 * * *", "--dst-gap", "skip", "--dst-overlap", "both"],
            {"timing": CronTiming("1 2 * * *", "UTC", "skip", "both")},
        ),
        (
            ["--every", "1h", "--start", "2090-01-01", "--end", "2091-01-01T00:00+01:00"],
            {"timing": Every(HOUR_MS, bounds=Bounds(ms("2090-01-01T00:00Z"), ms("2090-12-31T23:00Z")))},
        ),
        (
            ["--every", "1h", "--skip-on", "2090-12-25", "--skip-on", "2090-12-24"],
            {"timing": Every(HOUR_MS, bounds=Bounds(skip_on=("2090-12-24", "2090-12-25")))},
        ),
        (["--every", "1h", "--jitter", "2m"], {"jitter_ms": 120_000}),
        (["--every", "1h", "--overlap", "allow"], {"overlap": "allow"}),
        (["--every", "1h", "--missed", "skip"], {"missed": "skip"}),
        (["--every", "1h", "--missed", "catch_up(7)"], {"missed": CatchUp(7)}),
        (["--every", "1h", "--expires", "10m"], {"job.expires_after_ms": 600_000}),
        (["--every", "1h", "--attempts", "5"], {"job.run": RunOverrides(attempts=5)}),
        (["--every", "1h", "--backoff", "10s"], {"job.run": RunOverrides(backoff=fixed("10s"))}),
        (["--every", "1h", "--backoff", "none"], {"job.run": RunOverrides(backoff=backoff_of(None))}),
        (["--every", "1h", "--timeout", "30s"], {"job.run": RunOverrides(timeout_ms=30_000)}),
        (["--every", "1h", "--timeout", "none"], {"job.run": RunOverrides(timeout_ms=None)}),
        (
            ["--every", "1h", "--retry", "ValueError=none", "--retry", "shop.Busy=1m"],
            {"job.run": RunOverrides(rules={"ValueError": None, "shop.Busy": fixed("1m")})},
        ),
        (["--every", "1h", "--description", "says hello"], {"description": "says hello"}),
        (["--every", "1h", "--disabled"], {"enabled": False}),
        (["--every", "1h", "--priority", "3"], {"job.priority": 3}),
        (["--every", "1h", "--tag", "a", "--tag", "b"], {"job.tags": ("a", "b")}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_add_says_what_the_api_says(shared: Project, said: list[str], stored: dict[str, Any]) -> None:
    ran = shared("schedules", "add", "said", "greet", ADA, "--replace", *said)
    assert (ran.code, ran.err) == (0, "")
    found = record(shared, "said")
    values = {name: getattr(found.job if "." in name else found, name.removeprefix("job.")) for name in NOTHING_SAID}
    assert values == NOTHING_SAID | stored


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Error: schedule 's': give one of cron=, every= and at="),
        (["--every", "1h", "--cron", "* * * * *"], "give only one of cron, every"),
        (["--every", "10ms"], "Error: schedule 's': every='10ms': an interval is at least 1s"),
        (["--cron", "61 * * * *"], "minute (field 1, column 1) '61': 61 is out of range"),
        (["--cron", "0 3 * * *", "--timezone", "Europe/Atlantis"], "Europe/Atlantis"),
        (["--every", "1h", "--offset", "2h"], "offset='2h': an offset is shorter than the interval"),
        (["--at", "tomorrow"], "Error: --at 'tomorrow': it is no date and time such as 2026-12-24T18:00"),
        (["--at", "2020-01-01T00:00Z"], "it would never be due: its time has passed. Enqueue the job instead"),
        (["--every", "1h", "--start", "2090-01-01", "--end", "2089-01-01"], "it is not after start="),
        (["--every", "1h", "--skip-on", "xmas"], "'xmas' is no date such as '2026-12-25'"),
        (["--every", "1h", "--jitter", "soon"], "'soon' is not a duration"),
        (["--every", "1h", "--missed", "never"], "missed='never': it is one of"),
        (["--every", "1h", "--overlap", "maybe"], "'maybe' is not one of 'skip'"),
        (["--every", "1h", "--expires", "0s"], "expires='0s': no run would ever be started"),
        (["--every", "1h", "--attempts", "0"], "attempts=0: it is the number of tries"),
        (["--every", "1h", "--retry", "ValueError"], "write ConnectionError=10s, or ValueError=none"),
        (["--every", "1h", "--queue", "a:b"], "a:b"),
        (["--every", "1h", "--queue", ""], "queue '': a name is printable text"),
        (
            ["--every", "1d", "--start", "2090-01-01", "--end", "2090-01-02", "--skip-on", "2090-01-01"],
            "it would never be due: no slot is left by its start, end and skip_on",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_one_line(shared: Project, arguments: list[str], told: str) -> None:
    code, out, err = shared("schedules", "add", "s", "greet", ADA, *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("Error")]) == 1
    assert shared("schedules", "show", "s").code == 4


def test_a_name_is_taken_unless_it_is_to_be_replaced(shared: Project) -> None:
    assert shared("schedules", "add", "taken", "greet", ADA, "--every", "1h").code == 0
    again = shared("schedules", "add", "taken", "greet", ADA, "--every", "2h")
    assert again == (2, "", "Error: a schedule named 'taken' exists: give replace=True (--replace) to change it, "
                     "or another name\n")  # fmt: skip
    assert shared("schedules", "add", "taken", "greet", ADA, "--every", "2h", "--replace").code == 0
    assert record(shared, "taken").timing == Every(2 * HOUR_MS)


def test_the_queue_is_that_of_the_handler_unless_it_is_said(project: Project) -> None:
    wrong = project("schedules", "add", "s", "greet", '{"name": 7}', "--every", "1h")
    assert (wrong.code, wrong.out, wrong.err) == (2, "", "Error: payload of greet: $.name: Expected `str`, got `int`\n")
    unknown = project("schedules", "add", "s", "great", "--every", "1h")
    assert unknown.err == (
        "Error: shop has no handler 'great', only greet, refuse: say --queue for one that is elsewhere\n"
    )
    elsewhere = project("schedules", "add", "s", "great", "--every", "1h", "--queue", "far")
    assert elsewhere.code == 0
    assert elsewhere.err == "shop has no handler on queue 'far': the job waits until one listens to it\n"
    assert record(project, "s").job.queue == "far"
    project.write("app.py", (project.folder / "app.py").read_text() + MORE)
    both = project("schedules", "add", "t", "greet", ADA, "--every", "1h")
    assert both.err == "Error: shop has handlers 'greet' on queues greetings, parties: say --queue\n"


MORE = """
@app.handler("greet", queue="parties")
async def party(job: Job[None]) -> None: ...
"""


def test_what_code_defines_is_neither_added_nor_removed_here(project: Project) -> None:
    assert project("run", "--until-idle").code == 0
    ran = project("schedules", "add", "nightly", "greet", ADA, "--every", "1h", "--replace")
    assert ran == (2, "", "Error: the schedule 'nightly' is defined in code: give another name\n")


def test_an_application_that_cannot_be_imported_still_gets_its_schedule(project: Project) -> None:
    project.write("workfleet.yaml", "app: gone.py\napp_name: shop\n")
    ran = project("schedules", "add", "s", "greet", '{"any": 1}', "--every", "1h", "--queue", "greetings")
    assert ran.code == 0
    assert "the payload is not checked" in ran.err
    assert record(project, "s").job.payload == b'{"any":1}'


def test_pausing_and_resuming_one_or_several(project: Project) -> None:
    for name in ("a", "b"):
        assert project("schedules", "add", name, "greet", ADA, "--every", "1h").code == 0
    assert project("schedules", "pause", "b") == (0, "b is paused\n", "")
    assert project("schedules", "pause", "a", "b") == (0, "a is paused\nb was paused already\n", "")
    states = {each["name"]: each["paused"] for each in project("schedules", "ls", "--json").documents}
    assert states == {"a": True, "b": True}
    missing = project("schedules", "resume", "a", "x", "y")
    assert missing == (4, "", "Error: there is no schedule 'x', 'y'. Known schedules: a, b\n")
    assert record(project, "a").paused
    assert project("schedules", "resume", "a") == (0, "a is on again\n", "")
    assert project("schedules", "resume", "a", "b") == (0, "a was not paused\nb is on again\n", "")
    assert [record(project, name).paused for name in ("a", "b")] == [False, False]
    assert project("schedules", "pause").code == 2
    assert project("schedules", "pause", "a", "b", "--json").documents == [
        {"action": "pause", "schedule": name, "changed": True} for name in ("a", "b")
    ]
    assert project("schedules", "resume", "a", "a", "--json").documents == [
        {"action": "resume", "schedule": "a", "changed": True}
    ]
