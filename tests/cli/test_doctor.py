"""`workfleet doctor` on a store in a file. On Redis: tests/redis_fleet."""

from __future__ import annotations

from tests.cli.conftest import Project


def test_a_store_that_is_well(worked: Project) -> None:
    code, out, err = worked("doctor")
    assert (code, err) == (0, "")
    assert "synchronous FULL: a power cut loses nothing" in out
    found = {document["check"]: document for document in worked("doctor", "--json").documents}
    assert {"store", "version", "durability", "soundness", "disk", "workers"} <= found.keys()
    assert set(found["soundness"]) == {"check", "level", "said", "advice"}
    assert found["soundness"]["level"] == "ok"
    # The run of the fixture is over.
    assert (found["workers"]["level"], found["workers"]["said"]) == ("warning", "none works")


def test_jobs_to_which_nobody_listens_are_told(project: Project) -> None:
    project.make_store("shop")
    assert project("enqueue", "greetings", "refuse").code == 0
    found = [document for document in project("doctor", "--json").documents if document["check"] == "queues"]
    assert [(each["level"], each["said"]) for each in found] == [
        ("warning", "1 job waits on queue 'greetings', to which nobody listens")
    ]


def test_a_store_that_is_not_there(bare: Project) -> None:
    bare.write("app.py", "from workfleet import App\n\napp = App('a')\n")
    code, out, err = bare("doctor", "app.py")
    assert (code, err) == (3, "")
    assert "PROBLEM  store: sqlite:///" in out
    assert "it does not exist yet" in out
    (found,) = bare("doctor", "app.py", "--json").documents
    assert (found["check"], found["level"]) == ("store", "problem")
    assert found["advice"].startswith("Run the application first: workfleet run app.py")
