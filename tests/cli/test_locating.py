"""How a command finds its application and its store."""

from __future__ import annotations

import pytest

from .conftest import APP, Project

NO_STORE = "it does not exist yet. Run the application first: workfleet run"


def test_without_an_application_the_three_ways_to_name_it_are_told(bare: Project) -> None:
    code, out, err = bare("jobs", "ls")
    assert (code, out) == (2, "")
    assert err == (
        "Error: which application? Name it in one of three ways, as a file or as module:attr:\n"
        "  workfleet jobs ls --app app.py\n"
        "  WORKER_APP=app.py in the environment or in .env\n"
        '  [tool.workfleet] app = "app.py" in pyproject.toml, or `app: app.py` in workfleet.yaml\n'
    )


def test_a_command_with_an_argument_shows_it_there_and_sees_the_file(bare: Project) -> None:
    bare.write("app.py", APP)
    code, _, err = bare("run", "--until-idle")
    assert code == 2
    assert "  workfleet run app.py      (app.py is here)\n" in err


@pytest.mark.parametrize("command", ["status", "doctor", "config check", "config show", "run --until-idle"])
def test_a_command_with_an_argument_takes_the_option_too(command: str, project: Project) -> None:
    project.make_store("shop")
    verbs = command.split()
    named = project(*verbs, "--app", "none.py")
    assert (named.code, "there is no file" in named.err) == (78, True)
    assert project(*verbs, "app.py", "-a", "app.py").code in (0, 1), "the same application, twice"
    both = project(*verbs, "app.py", "-a", "none.py")
    assert (both.code, both.out) == (2, "")
    assert both.err.endswith("Error: app.py and --app none.py: name one application\n")


@pytest.mark.parametrize(
    ("files", "arguments", "environ"),
    [
        ({}, ("--app", "app.py"), {}),
        ({}, ("-a", "app.py:app"), {}),
        ({}, ("-a", "app:app"), {}),
        ({}, ("-a", "app"), {}),
        ({}, (), {"WORKER_APP": "app.py"}),
        ({".env": "WORKER_APP=app.py\n"}, (), {}),
        ({"pyproject.toml": '[tool.workfleet]\napp = "app.py"\n'}, (), {}),
        ({"workfleet.yaml": "app: app:app\n"}, (), {}),
        ({"other.yaml": "app: app.py\n"}, ("--config", "other.yaml"), {}),
        ({}, (), {"WORKER_APP_NAME": "shop"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_every_way_finds_it_and_a_store_that_is_missing_exits_3(
    files: dict[str, str], arguments: tuple[str, ...], environ: dict[str, str], bare: Project
) -> None:
    for name, text in {"app.py": APP, **files}.items():
        bare.write(name, text)
    code, out, err = bare("queues", "ls", *arguments, **environ)
    assert (code, out) == (3, "")
    assert NO_STORE in err
    assert str(bare.folder / ".workfleet/shop.db") in err
    assert not (bare.folder / ".workfleet").exists()


@pytest.mark.parametrize("locator", ["app.py", "app:app"])
def test_a_settings_file_names_it_from_the_projects_root(locator: str, project: Project) -> None:
    project.write("workfleet.yaml", f"app: {locator}\n")
    below = project.folder / "deep/er"
    below.mkdir(parents=True)
    ran = project("run", "--until-idle", cwd=below)
    assert ran.code == 0, ran.err
    assert project("queues", "ls", cwd=below).code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-a", "nowhere.py"), "there is no file"),
        (("-a", "nowhere:app"), "the module 'nowhere' is not found"),
        (("-a", "app.py:other"), "app.py has no 'other': did you mean app.py:app?"),
    ],
)
def test_a_locator_that_leads_nowhere_exits_78(arguments: tuple[str, ...], told: str, project: Project) -> None:
    code, out, err = project("queues", "ls", *arguments)
    assert (code, out) == (78, "")
    assert told in err


def test_a_store_of_another_place_is_named_by_option_or_variable(project: Project) -> None:
    url = f"sqlite:///{project.folder}/elsewhere.db"
    assert project("run", "--until-idle", "--store", url).code == 0
    assert project("queues", "ls").code == 3
    assert project("queues", "ls", "--store", url).code == 0
    assert project("queues", "ls", WORKER_STORE=url).code == 0


def test_a_store_in_memory_cannot_be_looked_at(project: Project) -> None:
    code, _, err = project("queues", "ls", "--store", "memory://")
    assert code == 3
    assert "it lives in one process only" in err


def test_a_store_that_is_no_store_exits_3(project: Project) -> None:
    project.write(".workfleet/shop.db", "not a database, and long enough to be taken for one " * 100)
    code, out, err = project("jobs", "ls")
    assert (code, out) == (3, "")
    assert err.startswith("Error: store ")
    assert "Traceback" not in err
