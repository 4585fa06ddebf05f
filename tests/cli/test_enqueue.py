"""`enqueue` and `schedules run`."""

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
    for created in (True, False):
        ran = shop("enqueue", "greetings", "greet", '{"name": "third"}', "--id", "two", "--json")
        assert ran.documents == [{"id": "two", "queue": "greetings", "name": "greet", "created": created}]


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
        (("greet", '{"name": NaN}'), "payload of greet: $.name: nan is no JSON number"),
        (("greet", '{"name": "\\ud800"}'), "payload of greet: $.name: the text is not valid Unicode"),
        (("other", '["\\udfff"]'), "payload of other: $[0]: the text is not valid Unicode"),
        (("other", str(2**60)), "payload of other: $: the integer is beyond"),
        (("other", "[" * 100_000), "nested too deeply"),
        (("other", "9" * 5_000), "payload of other: $: a number of too many digits"),
        (("other", "1", "--delay", "90"), "'90' has no unit: write '90s'"),
        (("other", "1", "--id", "a:b"), "without a colon"),
        (("other", "1", "--id", "\udcff"), "id='\\udcff': 1 to 255 bytes"),
        (("other", "1", "--id", "x" * 5_000), f"id='{'x' * 60}'…: 1 to 255 bytes"),
        (("other", "1", "--at", "tomorrow"), "--at 'tomorrow': it is no instant such as 2026-12-24T18:00Z"),
        (("other", "1", "--at", "2026-12-24"), "--at '2026-12-24': it has no time zone: write it as 2026-12-24T18:00Z"),
        (("other", "1", "--at", "2099-01-01T00:00Z", "--delay", "1s"), "give delay= or at=, not both"),
        (("other", "1", "--priority", "-1"), "priority=-1: 0 to 2097151"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_refused_with_its_place(arguments: tuple[str, ...], told: str, shop: Project) -> None:
    code, out, err = shop("enqueue", "greetings", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert told in err


def test_at_an_instant(shop: Project) -> None:
    assert shop("enqueue", "greetings", "later", "--id", "at", "--at", "2099-12-24T19:00+01:00").code == 0
    job = show(shop, "at")
    assert (job["state"], job["due"]) == ("delayed", "2099-12-24T18:00:00Z")


def test_a_store_that_is_not_there_is_never_made(shop: Project, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/nope.db"
    by_option = shop("enqueue", "greetings", "later", "--store", url)
    assert (by_option.code, by_option.out) == (3, "")
    assert by_option.err == (
        f"Error: store sqlite:///{tmp_path}/nope.db: it does not exist yet. Run the application first: workfleet run\n"
        "Or correct its address, which --store, WORKER_STORE or a settings file gives\n"
    )
    assert shop("enqueue", "greetings", "later", WORKER_STORE=url) == by_option
    assert not (tmp_path / "nope.db").exists()


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
