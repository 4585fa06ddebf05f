"""`enqueue`, `jobs retry` and `schedules run`: what changes something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Project, make_project


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose store exists, and where nothing runs what is enqueued."""
    project = make_project(tmp_path_factory.mktemp("shop"))
    assert project("run", "--until-idle").code == 0
    return project


def show(project: Project, job_id: str) -> Any:
    (document,) = project("jobs", "show", job_id, "--json").documents
    return document


def test_it_prints_the_id_and_nothing_else(shop: Project) -> None:
    ran = shop.process(
        "enqueue", "greetings", "greet", '{"name": "Ada", "times": 2}', "--delay", "1h30m", "--priority", "5"
    )
    assert (ran.code, ran.err) == (0, "")
    job = show(shop, ran.out.strip())
    assert (job["queue"], job["name"], job["payload"]) == ("greetings", "greet", {"name": "Ada", "times": 2})
    assert (job["state"], job["priority"]) == ("delayed", 5)


def test_an_id_that_exists_is_left_alone(shop: Project) -> None:
    first = shop("enqueue", "greetings", "greet", '{"name": "first"}', "--id", "one")
    second = shop("enqueue", "greetings", "greet", '{"name": "second"}', "--id", "one")
    assert (first.code, first.out, first.err) == (0, "one\n", "")
    assert (second.code, second.out, second.err) == (0, "one\n", "already there: nothing was added\n")
    assert show(shop, "one")["payload"]["name"] == "first"


def test_the_payload_comes_from_standard_input(shop: Project) -> None:
    ran = shop.process("enqueue", "greetings", "greet", "-", stdin='{"name": "é"}\n')
    assert show(shop, ran.out.strip())["payload"]["name"] == "é"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("greet", "{name: Ada}"), "payload of greet: line 1, column 2: it is no JSON: "),
        (("greet", ""), "it is no JSON"),
        (("greet", '{"times": 2}'), "payload of greet: $: Object missing required field `name`"),
        (("greet", '{"name": "x", "times": "y"}'), "payload of greet: $.times: Expected `int`, got `str`"),
        (("greet",), "payload of greet: $: Expected `object`, got `null`"),
        (("refuse", "3"), "payload of refuse: $: Expected `null`, got `int`"),
        (("other", "NaN"), "payload of other: $: nan is no JSON number"),
        (("other", str(2**60)), "payload of other: $: the integer is beyond"),
        (("other", "[" * 100_000), "nested too deeply"),
        (("other", "1", "--delay", "90"), "'90' has no unit: write '90s'"),
        (("other", "1", "--id", "a:b"), "without a colon"),
        (("other", "1", "--priority", "-1"), "priority=-1: 0 to 2097151"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_refused_with_its_place(arguments: tuple[str, ...], told: str, shop: Project) -> None:
    code, out, err = shop("enqueue", "greetings", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert told in err


def test_a_name_without_a_handler_is_added_and_said(shop: Project) -> None:
    code, out, err = shop("enqueue", "greetings", "greeet", "1", "--id", "typo")
    assert (code, out) == (0, "typo\n")
    assert "shop has no handler 'greeet' on queue 'greetings', only greet, refuse" in err
    other = shop("enqueue", "elsewhere", "anything", "--id", "foreign")
    assert (other.code, other.out) == (0, "foreign\n")
    assert other.err == "shop has no handler on queue 'elsewhere': the job waits until one listens to it\n"
    assert show(shop, "foreign")["payload"] is None


def test_an_application_of_a_known_name_need_not_be_importable(shop: Project, tmp_path: Path) -> None:
    elsewhere = Project(tmp_path, {"WORKER_STORE": f"sqlite:///{shop.folder}/.workfleet/shop.db"})
    elsewhere.write("app.py", "import nowhere\n")
    ran = elsewhere("enqueue", "greetings", "greet", "[]", "--id", "blind", WORKER_APP_NAME="shop", WORKER_APP="app.py")
    assert (ran.code, ran.out) == (0, "blind\n")
    assert "the payload is not checked" in ran.err
    assert show(shop, "blind")["payload"] == []


def test_without_queueing_nothing_is_enqueued(shop: Project) -> None:
    code, out, err = shop("enqueue", "greetings", "greet", '{"name": "x"}', WORKER_QUEUE_ENABLED="false")
    assert (code, out) == (1, "")
    assert "job 'greet' cannot be put on queue 'greetings': queueing is off" in err


def test_a_schedule_is_run_once_and_its_overlap_refused(shop: Project) -> None:
    ran = shop("schedules", "run", "nightly")
    assert (ran.code, ran.err) == (0, "")
    job = show(shop, ran.out.strip())
    assert (job["schedule"], job["state"], job["slot"]) == ("nightly", "waiting", None)
    code, out, err = shop("schedules", "run", "nightly")
    assert (code, out) == (1, "")
    assert err == f"not run: the schedule 'nightly' is running already (job {job['id']})\n"
    (document,) = shop("schedules", "run", "off", "--json").documents
    assert document == {"schedule": "off", "accepted": False, "job": None, "reason": "the schedule 'off' is disabled"}
    code, _, err = shop("schedules", "run", "nothing")
    assert code == 4
    assert "Known schedules: nightly, off" in err


def states(project: Project) -> dict[str, str]:
    documents = project("jobs", "ls", "--queue", "greetings", "--json").documents
    return {document["id"]: document["state"] for document in documents}


def test_retry_takes_all_or_none_and_asks_before_many(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.make_store("shop")
    for job_id in ("f1", "f2", "f3"):
        assert project("enqueue", "greetings", "refuse", "--id", job_id).code == 0
    assert project("enqueue", "greetings", "greet", '{"name": "ok"}', "--id", "ok").code == 0
    assert project("run", "--until-idle").code == 0
    before = states(project)
    assert before == {"f1": "failed", "f2": "failed", "f3": "failed", "ok": "completed"}
    for arguments, stdin, expected in (
        (
            ("f1", "nope", "gone"),
            "",
            (4, "", "Error: there is no job nope, gone: check the id, or its retention is over"),
        ),
        (("f1", "ok"), "", (2, "", "Error: only a failed job can be retried: ok is completed. Nothing was done")),
        (("f1", "ok", "--dry-run"), "", (2, "", "Error: only a failed job can be retried")),
        (("f1", "f2", "--dry-run"), "", (0, "2 jobs would be retried\n", "")),
        (("--all-failed", "--dry-run"), "", (0, "3 jobs would be retried\n", "")),
        (("--all-failed",), "", (1, "", "Retry 3 failed jobs? [y/N] nothing was done\n")),
        (("--all-failed",), "no\n", (1, "", "Retry 3 failed jobs? [y/N] nothing was done\n")),
        (("--all-failed", "--queue", "elsewhere"), "", (0, "0 jobs made ready\n", "")),
    ):
        code, out, err = project("jobs", "retry", *arguments, stdin=stdin)
        assert (code, out) == expected[:2], arguments
        assert err.startswith(expected[2]) if expected[2] else err == "", arguments
        assert states(project) == before, arguments
    assert project("jobs", "retry", "f1").out == "1 job made ready\n"
    assert states(project) == {**before, "f1": "waiting"}
    assert project("jobs", "retry", "--all-failed", stdin="y\n").out == "2 jobs made ready\n"
    assert states(project) == {"f1": "waiting", "f2": "waiting", "f3": "waiting", "ok": "completed"}
    (job,) = project("jobs", "show", "f1", "--json").documents
    assert (job["attempts_made"], len(job["history"])) == (0, 1)
