"""The settings file: which one is read, what its lines are, and what makes it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.settings.conftest import Project
from workfleet.settings import LockSettings, project_root


def test_workfleet_yaml_is_read_from_the_project_root(project: Project) -> None:
    project.write("workfleet.yaml", "processes: 3\nlock:\n  retries: 9\n")
    (project.folder / "deep" / "er").mkdir(parents=True)
    inner = Project(project.folder / "deep" / "er")
    loaded = inner.read()
    assert loaded.project == project.folder
    assert (loaded.core.processes, loaded.section("lock", LockSettings).retries) == (3, 9)
    assert str(loaded.origins["lock.retries"]) == "workfleet.yaml:3"


def test_pyproject_is_read(project: Project) -> None:
    project.write("pyproject.toml", '[tool.workfleet]\napp = "shop:app"\n[tool.workfleet.lock]\nretries = 9\n')
    loaded = project.read()
    assert (loaded.core.app, loaded.section("lock", LockSettings).retries) == ("shop:app", 9)
    assert str(loaded.origins["app"]) == "[tool.workfleet] in pyproject.toml"


def test_a_pyproject_without_our_table_is_nothing(project: Project) -> None:
    project.write("pyproject.toml", "[project]\nname = 'x'\n")
    project.write("workfleet.yaml", "processes: 2\n")
    assert project.read().core.processes == 2


@pytest.mark.parametrize("by_option", [True, False])
def test_another_file_may_be_named(project: Project, by_option: bool) -> None:
    project.write("deploy/prod.yaml", "processes: 8\n")
    where = Path("deploy/prod.yaml")
    loaded = project.read(config=where) if by_option else project.read({"WORKER_CONFIG": str(where)})
    assert (loaded.core.processes, loaded.core.config) == (8, where)
    assert str(loaded.origins["processes"]) == "deploy/prod.yaml:1"


def test_a_toml_file_may_be_named(project: Project) -> None:
    project.write("prod.toml", "processes = 8\n")
    assert project.read(config=Path("prod.toml")).core.processes == 8
    project.write("other/pyproject.toml", "[tool.workfleet]\nprocesses = 9\n")
    assert project.read(config=Path("other/pyproject.toml")).core.processes == 9
    project.write("other/pyproject.toml", "[tool]\n")
    assert project.problem(config=Path("other/pyproject.toml")).message == "it has no table [tool.workfleet]"


@pytest.mark.parametrize(
    ("files", "env", "option", "named"),
    [
        (["workfleet.yaml", "pyproject.toml"], {}, None, "workfleet.yaml and [tool.workfleet] in pyproject.toml"),
        (["workfleet.yaml", "workfleet.yml"], {}, None, "workfleet.yaml and workfleet.yml"),
        (["workfleet.yaml", "a.yaml"], {"WORKER_CONFIG": "a.yaml"}, None, "WORKER_CONFIG a.yaml and workfleet.yaml"),
        (["workfleet.yaml", "a.yaml"], {}, Path("a.yaml"), "--config a.yaml and workfleet.yaml"),
        (["a.yaml", "b.yaml"], {"WORKER_CONFIG": "b.yaml"}, Path("a.yaml"), "--config a.yaml and WORKER_CONFIG b.yaml"),
    ],
)
def test_two_files_at_once_are_refused(
    project: Project, files: list[str], env: dict[str, str], option: Path | None, named: str
) -> None:
    for name in files:
        project.write(name, "[tool.workfleet]\nprocesses=1\n" if name.endswith("toml") else "processes: 1\n")
    problem = project.problem(env, config=option)
    assert problem.name == "settings files"
    assert problem.message == f"only one may be used at once: {named}; keep one of them"


def test_a_file_that_is_not_there_is_the_only_complaint(project: Project) -> None:
    project.write("workfleet.yaml", "processes: 1\n")
    problem = project.problem({}, config=Path("nope.yaml"))
    assert (problem.name, problem.value, problem.message) == ("--config", "nope.yaml", "there is no such file")


def test_the_same_file_named_twice_is_one(project: Project) -> None:
    path = project.write("workfleet.yaml", "processes: 2\n")
    assert project.read({"WORKER_CONFIG": "workfleet.yaml"}, config=path).core.processes == 2


def test_a_named_file_that_is_missing_is_refused(project: Project) -> None:
    problem = project.problem(config=Path("gone.yaml"))
    assert str(problem) == "--config = gone.yaml (from command line): there is no such file"


def test_every_unknown_name_is_an_error_with_its_line(project: Project) -> None:
    project.write(
        "workfleet.yaml",
        "timzone: UTC\nlock:\n  default-ttl: 1m\n  ttl: 1m\nretry_delay: 1s\nfoo: {a: secret}\npools:\n  max_qeue: 7\n"
        "default_ttl: 1m\nconfig: x.yaml\n",
    )
    found = [(one.name, one.origin, one.value, one.message) for one in project.problems()]
    assert found == [
        ("timzone", "workfleet.yaml:1", "UTC", "is not a setting; did you mean timezone?"),
        ("lock.default-ttl", "workfleet.yaml:3", "1m", "is not a setting; did you mean lock.default_ttl?"),
        ("lock.ttl", "workfleet.yaml:4", "1m",
         "is not a setting; lock has default_ttl, key_prefix, retries, retry_delay, client"),
        ("retry_delay", "workfleet.yaml:5", "1s", "is not a setting"),
        ("foo", "workfleet.yaml:6", None, "is not a setting"),
        ("pools.max_qeue", "workfleet.yaml:8", "7", "is not a setting; did you mean pools.max_queue?"),
        ("default_ttl", "workfleet.yaml:9", "1m", "is not a setting; did you mean lock.default_ttl?"),
        ("config", "workfleet.yaml:10", "x.yaml",
         "says where the settings file is, so only --config and WORKER_CONFIG can"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "is not right YAML, line 1: "),
        ("redis: {password: 'hush", "is not right YAML, line 1: "),
        ("- a\n- b\n", "it has to be a mapping"),
        ("just text", "it has to be a mapping"),
        ("processes: 1\nlock: {}\nprocesses: 2\n", "line 3: the key processes stands there twice"),
        (
            "lock: !!python/object:os.system {}\n",
            "line 1: the tag tag:yaml.org,2002:python/object:os.system means nothing",
        ),
        ("lock: &a {b: *a}\n", "is not right YAML"),
        ("a: !!python/name:os.system x\n", "is not right YAML, line 1: could not determine a constructor"),
    ],
)
def test_a_broken_file_is_a_problem_like_others(project: Project, text: str, message: str) -> None:
    project.write("workfleet.yaml", text)
    problems = project.problems({"WORKER_PROCESSES": "0"})
    assert any(message in problem.message for problem in problems[:-1]), [str(one) for one in problems]
    assert problems[-1].name == "WORKER_PROCESSES"
    assert "hush" not in " ".join(map(str, problems))


def test_a_broken_pyproject_is_a_problem(project: Project) -> None:
    project.write("pyproject.toml", "[tool.workfleet\n")
    assert project.problem().message.startswith("is not right TOML")


def test_an_empty_file_and_empty_sections_say_nothing(project: Project) -> None:
    project.write("workfleet.yaml", "")
    assert project.read().origins == {}
    project.write("workfleet.yaml", "lock:\npools: {}\njobs:\n")
    assert project.read().origins == {}


def test_anchors_and_merges_work(project: Project) -> None:
    project.write(
        "workfleet.yaml", "lock: &base {retries: 9}\njobs:\n  a: &j {attempts: 2}\n  b: {<<: *j, attempts: 3}\n"
    )
    jobs = project.read().core.jobs
    assert (jobs["a"].given(), jobs["b"].given()) == ({"attempts": 2}, {"attempts": 3})


def test_plain_values_for_text_are_taken_as_written(project: Project) -> None:
    project.write("workfleet.yaml", "release: 1.10\nqueues: [on, 1e3]\nredis: {password: 0123, user: yes}\n")
    core = project.read().core
    assert (core.release, core.queues, core.redis.user) == ("1.10", ["on", "1e3"], "yes")
    assert core.redis.password is not None
    assert core.redis.password.get_secret_value() == "0123"


def test_a_bare_number_for_a_duration_is_refused_in_files_too(project: Project) -> None:
    project.write("workfleet.yaml", "lease: 30\nprocesses: yes\n")
    first, second = project.problems()
    assert (first.name, first.value) == ("processes", "yes")
    assert first.message == "that is true or false, not a number (allowed: a whole number from 1 to 1024)"
    assert (second.name, second.value, second.origin) == ("lease", "30", "workfleet.yaml:1")
    assert second.message.startswith("'30' has no unit: write '30s'")


def test_a_scalar_where_a_section_belongs_is_refused(project: Project) -> None:
    project.write("workfleet.yaml", "lock: 5\njobs: [a]\n")
    assert [str(one) for one in project.problems()] == [
        "lock = 5 (from workfleet.yaml:1): must be a mapping of names to values",
        "jobs = a (from workfleet.yaml:2): must be a mapping of names to values",
    ]


@pytest.mark.parametrize("mark", ["workfleet.yaml", "pyproject.toml", ".git"])
def test_the_project_root_is_the_nearest_folder_with_a_mark(tmp_path: Path, mark: str) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b" / mark).mkdir()
    assert project_root(inner) == tmp_path / "a" / "b"
    assert project_root(tmp_path / "a") == tmp_path


def test_without_a_mark_the_root_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workfleet.settings.root._MARKS", ("no-such-mark-anywhere",))
    assert project_root(tmp_path) == tmp_path
