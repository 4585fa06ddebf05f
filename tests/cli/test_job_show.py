"""`jobs show` and `jobs logs` of jobs in every condition."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from workfleet.cli.job_timeline import timeline
from workfleet.cli.json_page import readable
from workfleet.errors import LAST_WORDS
from workfleet.model.jobs import (
    Attempt,
    Failure,
    JobRecord,
    JobState,
    Keep,
    KeepRule,
    RunOverrides,
    UniqueRule,
)
from workfleet.model.outcome import Outcome, Settlement
from workfleet.model.policy import Backoff
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store

from .conftest import Project, make_project
from .running import running

NOW = 1_800_000_000_000


def sections(out: str) -> dict[str, list[str]]:
    first, *others = out.rstrip("\n").split("\n\n")
    parts = {part.splitlines()[0]: part.splitlines()[1:] for part in others}
    return {"facts": first.splitlines(), **parts}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def test_lines_of_a_text_are_below_each_other_and_everything_else_is_json() -> None:
    value = {"a": 'one\ntwo "2"\n', "b": [1, True, None, "x\ny", {}, []], "c\td": {"e": "\x1b[31m\r"}}
    assert readable(msgspec.json.encode(value)).split("\n") == [
        "{",
        '  "a": "one',
        '        two \\"2\\"',
        '        ",',
        '  "b": [',
        "    1,",
        "    true,",
        "    null,",
        '    "x',
        '     y",',
        "    {},",
        "    []",
        "  ],",
        '  "c\\td": {',
        '    "e": "\\u001b[31m\\r"',
        "  }",
        "}",
    ]
    assert readable(b"3") == "3"
    assert readable(b"{nonsense") == "(no JSON) {nonsense"
    assert readable(b"[" * 100_000).startswith("(no JSON) [[[")


def test_everything_that_was_said_of_a_job(project: Project) -> None:
    job = JobRecord(
        id="a",
        queue="mails",
        name="send",
        payload=b'"one\\ntwo"',
        run=RunOverrides(
            attempts=7,
            backoff=Backoff("exponential", 1_000, 600_000),
            timeout_ms=None,
            rules={"ValueError": None, "OSError": Backoff("fixed", 2_000, 2_000, "none")},
        ),
        priority=5,
        lifo=True,
        delay_ms=5_400_000,
        unique_key="k",
        unique=UniqueRule(window_ms=60_000, on_conflict="replace"),
        group="acme",
        expires_ms=NOW * 2,
        keep=Keep(completed=KeepRule(3_600_000, 10), failed=KeepRule()),
        tags=("red", "blue"),
        metadata={"by": "ada"},
        trace="00-1-2-01",
    )

    async def fill(store: Store) -> None:
        await store.jobs.enqueue([job])

    project.in_store(fill)
    ran = project("jobs", "show", "a")
    assert (ran.code, ran.err) == (0, "")
    parts = sections(ran.out)
    assert [line.split("  ")[0] for line in parts["facts"]] == [
        "job", "name", "queue", "state", "attempts", "group", "tags", "metadata", "trace",
    ]  # fmt: skip
    assert list(parts) == ["facts", "waits for", "payload", "options", "timeline"]
    assert parts["payload"] == ['  "one', '   two"']
    assert parts["waits for"][0].startswith("  its time, ")
    assert parts["waits for"][1:] == ["  a worker that listens to queue 'mails': none does"]
    assert parts["options"] == [
        "  attempts 7",
        "  backoff exponential from 1s up to 10m, jitter full",
        "  timeout none",
        "  retry ValueError not",
        "  retry OSError fixed from 2s, jitter none",
        "  priority 5",
        "  lifo last in first out",
        "  delay 1h30m",
        "  expires 2084-01-29T16:00:00Z",
        "  unique 'k', for 1m, replace on conflict",
        "  kept when completed for 1h, among the newest 10",
        "  kept when failed for ever",
    ]
    (document,) = project("jobs", "show", "a", "--json").documents
    assert (document["group"], document["lifo"], document["expires"]) == ("acme", True, "2084-01-29T16:00:00Z")
    assert (document["unique_key"], document["unique"]["window_ms"]) == ("k", 60_000)
    assert (document["options"]["attempts"], document["options"]["timeout_ms"]) == (7, None)
    assert document["keep"]["completed"] == {"age_ms": 3_600_000, "count": 10}
    assert document["waits_for"] == [line.strip() for line in parts["waits for"]]


def record(**facts: object) -> JobRecord:
    return JobRecord(id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW, **facts)  # type: ignore[arg-type]


ONE = Attempt(1, "failed", NOW + 20, NOW + 105, "w1", Failure("raised", "line\nbreak", "ValueError"))
TWO = Attempt(2, "completed", NOW + 2_000, NOW + 6_200, "w2")


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        (record(), ["enqueued 1m ago", "ready at once", "waits since 1m"]),
        (
            JobRecord(id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 90_000, state=JobState.DELAYED),
            ["enqueued 1m ago", "due in 30s"],
        ),
        (
            record(state=JobState.ACTIVE, started_ms=NOW + 1_500, worker="w1"),
            ["enqueued 1m ago", "ready at once", "started after 1.5 s, runs for 58.5 s on w1"],
        ),
        (
            record(state=JobState.COMPLETED, started_ms=NOW + 20, finished_ms=NOW + 105, history=(ONE,)),
            [
                "enqueued 1m ago",
                "ready at once",
                "attempt 1 on w1, started after 20 ms, failed after 85 ms: ValueError: line\\nbreak",
                "completed 59s ago, 105 ms after it was enqueued",
            ],
        ),
        (
            JobRecord(
                id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 1_900, started_ms=NOW + 2_000,
                state=JobState.COMPLETED, finished_ms=NOW + 6_200, history=(ONE, TWO),
            ),
            [
                "enqueued 1m ago",
                "attempt 1 on w1, failed after 85 ms: ValueError: line\\nbreak",
                "attempt 2 on w2, completed after 4.2 s",
                "completed 53s ago, 6.2 s after it was enqueued",
            ],
        ),
        (
            JobRecord(
                id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 10_000, started_ms=NOW + 12_000,
                attempts_made=1, state=JobState.ACTIVE, worker="w1", history=(ONE,),
            ),
            [
                "enqueued 1m ago",
                "attempt 1 on w1, failed after 85 ms: ValueError: line\\nbreak",
                "ready again after 9.9 s",
                "started after 2.0 s, runs for 48.0 s on w1",
            ],
        ),
        (
            JobRecord(
                id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 10_000, started_ms=NOW + 10_500,
                state=JobState.COMPLETED, finished_ms=NOW + 11_000,
                history=(ONE, TWO, Attempt(1, "completed", NOW + 10_500, NOW + 11_000, "w1")),
            ),
            [
                "enqueued 1m ago",
                "attempt 1 on w1, failed after 85 ms: ValueError: line\\nbreak",
                "attempt 2 on w2, completed after 4.2 s",
                "made ready again after 3.8 s",
                "attempt 1 on w1, completed after 500 ms",
                "completed 49s ago, 11.0 s after it was enqueued",
            ],
        ),
        (
            JobRecord(
                id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 30_000, state=JobState.DELAYED,
                attempts_made=1, history=(ONE, Attempt(1, "failed", NOW + 10_500, NOW + 11_000, "w1")),
            ),
            [
                "enqueued 1m ago",
                "attempt 1 on w1, failed after 85 ms: ValueError: line\\nbreak",
                "made ready again",
                "attempt 1 on w1, failed after 500 ms",
                "due 30s ago",
            ],
        ),
        (
            JobRecord(
                id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 10_000, history=(ONE,),
            ),
            [
                "enqueued 1m ago",
                "attempt 1 on w1, failed after 85 ms: ValueError: line\\nbreak",
                "made ready again after 9.9 s",
                "waits since 50.0 s",
            ],
        ),
        (
            JobRecord(
                id="a", queue="q", name="n", created_ms=NOW, due_ms=NOW + 10_000, crashes=1,
                history=(Attempt(1, "crashed", NOW + 20, NOW + 105, "w1"),),
            ),
            [
                "enqueued 1m ago",
                "attempt 1 on w1, crashed after 85 ms",
                "ready again after 9.9 s",
                "waits since 50.0 s",
            ],
        ),
    ],
    ids=[
        "waiting", "delayed", "active", "completed", "retried", "retrying", "by hand", "by hand and failed",
        "by hand now", "crashed",
    ],
)  # fmt: skip
def test_the_timeline_from_enqueued_to_settled(job: JobRecord, lines: list[str]) -> None:
    told = list(timeline(job, NOW + 60_000))
    assert [line[20:].strip() for line in told] == lines
    assert told[0].startswith("2027-01-15T08:00:00Z  ")


def test_a_long_history_and_a_long_message_are_cut() -> None:
    long = Attempt(1, "failed", NOW + 1, NOW + 2, "", Failure("x", "m" * 10_000))
    told = list(timeline(record(state=JobState.FAILED, finished_ms=NOW + 3, history=(long,) * 30), NOW + 3))
    assert sum("attempt 1," in line for line in told) == 20
    assert any("… 10 earlier attempts (--json shows them)" in line for line in told)
    assert max(map(len, told)) < 400


def test_a_message_of_several_lines_without_a_traceback_is_shown_whole(project: Project) -> None:
    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id="a", queue="q", name="n")])
        (job,) = await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("q", 1),)))
        outcome = Outcome(state=JobState.FAILED, code="failed", failure=Failure("failed", "first\n  second"))
        await store.jobs.report(job.claim, lines=["one\ntwo \x1b[31m"], call="c")
        await store.jobs.settle([Settlement(job.claim, outcome)])

    project.in_store(fill)
    parts = sections(project("jobs", "show", "a").out)
    assert parts["message"] == ["  first", "    second"]
    assert any(line.split("  ", 1)[1].strip() == "first\\n  second" for line in parts["facts"])
    assert parts["logs"] == ["  one", "  two \\x1b[31m"]
    assert "waits for" not in parts
    assert project("jobs", "logs", "a") == (0, "one\ntwo \\x1b[31m\n", "")
    assert project("jobs", "logs", "a", "--json").documents == [{"line": "one\ntwo \x1b[31m"}]
    assert project("jobs", "logs", "a", "-f").out == "one\ntwo \\x1b[31m\n"


@pytest.mark.parametrize("verb", ["show", "logs"])
def test_an_id_with_a_byte_that_is_no_text_is_no_jobs(verb: str, project: Project) -> None:
    project.make_store("shop")
    for ran in (project("jobs", verb, "\udcff"), project.process("jobs", verb, "\udcff")):
        assert (ran.code, ran.out) == (4, "")
        assert ran.err == "Error: there is no job '\\udcff': check the id, or its retention is over\n"


def test_following_a_jobs_logs_until_it_has_finished(project: Project) -> None:
    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id="a", queue="q", name="n")])

    async def work(store: Store) -> None:
        (job,) = await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("q", 1),)))
        await store.jobs.report(job.claim, lines=["first", "second"], call="c")

    async def end(store: Store) -> None:
        (job,) = await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("q", 1),)))
        await store.jobs.report(job.claim, lines=["last"], call="d")
        outcome = Outcome(state=JobState.COMPLETED, code="completed")
        await store.jobs.settle([Settlement(job.claim, outcome)])

    project.in_store(fill)
    with running(project, "jobs", "logs", "a", "--follow") as follower:
        assert follower.process.stdout is not None
        project.in_store(work)
        assert [follower.process.stdout.readline() for _ in range(2)] == ["first\n", "second\n"]
        project.in_store(end)
        assert follower.end() == (0, "last\n")


def test_of_a_child_that_died_only_the_traceback_has_the_last_words(project: Project) -> None:
    said = "the child 7 of pool 'cpu' died in job:n (signal SIGSEGV)"
    whole = f"{said}{LAST_WORDS}Fatal Python error: Segmentation fault\n  in app.py"

    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id="a", queue="q", name="n")])
        (job,) = await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("q", 1),)))
        failure = Failure("child_died", whole, "ChildDied", f"Traceback:\nworkfleet.errors.ChildDied: {whole}")
        attempt = Attempt(1, "failed", NOW, NOW + 5, "w1", failure)
        outcome = Outcome(state=JobState.FAILED, code="failed", failure=failure, attempt=attempt)
        await store.jobs.settle([Settlement(job.claim, outcome)])

    project.in_store(fill)
    parts = sections(project("jobs", "show", "a").out)
    assert f"failure   {said}" in parts["facts"]
    assert any(line.endswith(f"failed after 5 ms: {said}") for line in parts["timeline"])
    assert parts["traceback"][-2:] == ["  Fatal Python error: Segmentation fault", "    in app.py"]
    assert project("jobs", "explain", "a").out.endswith(f" ago: {said}\n")
    assert project("jobs", "ls").out.rstrip().endswith(said)


def test_while_a_job_runs_the_outcome_of_the_run_before_is_not_its_state(project: Project) -> None:
    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id="a", queue="q", name="n")])
        (job,) = await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("q", 1),)))
        again = Outcome(state=JobState.WAITING, code="crashed", failure=Failure("crashed", "killed"))
        await store.jobs.settle([Settlement(job.claim, again)])

    async def claim(store: Store) -> None:
        assert len(await store.jobs.claim(ClaimRequest("w2", "u", 30_000, (Want("q", 1),)))) == 1

    project.in_store(fill)
    assert "state     waiting (crashed)" in sections(project("jobs", "show", "a").out)["facts"]
    project.in_store(claim)
    assert "state     active" in sections(project("jobs", "show", "a").out)["facts"]


def test_a_job_that_wrote_nothing_has_no_lines(project: Project) -> None:
    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id="a", queue="q", name="n")])

    project.in_store(fill)
    assert project("jobs", "logs", "a") == (0, "", "a has no lines\n")
    assert project("jobs", "logs", "a", "--json") == (0, "", "")


@pytest.mark.parametrize("verb", ["show", "logs", "logs -f", "explain"])
def test_the_queue_says_which_job_is_meant(verb: str, project: Project) -> None:
    async def fill(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id="1", queue="emails", name="n")])
        (job,) = await store.jobs.claim(ClaimRequest("w1", "t", 30_000, (Want("emails", 1),)))
        await store.jobs.settle([Settlement(job.claim, Outcome(state=JobState.COMPLETED, code="completed"))])

    project.in_store(fill)
    assert project("jobs", *verb.split(), "1", "--queue", "emails").code == 0
    elsewhere = project("jobs", *verb.split(), "1", "--queue", "photos")
    assert (elsewhere.code, elsewhere.err.partition(":")[2].strip()[:20]) == (4, "there is no job '1':")
