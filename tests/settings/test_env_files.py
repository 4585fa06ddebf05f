"""The .env files: their grammar, their order, and that they never change a variable that exists."""

from __future__ import annotations

import os

import pytest

from tests.settings.conftest import Project
from workfleet.settings import Source


def test_they_fill_the_environment_and_leave_what_exists(project: Project) -> None:
    project.write(".env", "ONE=env\nTWO=env\nTHREE=env\n")
    project.write(".env.local", "ONE=local\nTWO=local\n")
    project.read({"ONE": "real"})
    assert project.environ == {"ONE": "real", "TWO": "local", "THREE": "env"}


def test_a_variable_that_exists_but_is_empty_is_left_too(project: Project) -> None:
    project.write(".env", "WORKER_TIMEZONE=Asia/Tokyo\n")
    loaded = project.read({"WORKER_TIMEZONE": ""})
    assert (loaded.core.timezone, project.environ["WORKER_TIMEZONE"]) == ("UTC", "")


def test_the_grammar(project: Project) -> None:
    project.write(
        ".env",
        "# a comment\n"
        "\n"
        "export EXPORTED=yes\n"
        "SPACED = value # a comment\n"
        "HASH=a#b\n"
        "DOUBLE=\"two\\nlines # no comment\"\n"
        "SINGLE='as ${HASH} is'\n"
        "EMPTY=\n"
        "BARE\n"
        "MANY=\"one\n"
        "two\"\n",
    )  # fmt: skip
    project.read()
    assert project.environ == {
        "EXPORTED": "yes", "SPACED": "value", "HASH": "a#b", "DOUBLE": "two\nlines # no comment",
        "SINGLE": "as ${HASH} is", "EMPTY": "", "MANY": "one\ntwo",
    }  # fmt: skip


def test_variables_are_replaced_from_the_environment_then_both_files(project: Project) -> None:
    project.write(".env", "HOST=env\nURL=http://${HOST}:${PORT:-80}/${USER_NAME}\nLATER=${LAST}\nLAST=z\n")
    project.write(".env.local", "HOST=local\nFROM_BASE=${LAST}\n")
    loaded = project.read({"USER_NAME": "real"})
    assert project.environ["URL"] == "http://local:80/real"
    assert project.environ["LATER"] == "z"
    assert project.environ["FROM_BASE"] == "z"
    assert loaded.warnings == ()


def test_a_missing_variable_is_said(project: Project) -> None:
    project.write(".env", "A=1\nURL=http://${NOWHERE}/\n")
    loaded = project.read()
    assert project.environ["URL"] == "http:///"
    assert loaded.warnings == (".env:2: ${NOWHERE} is not set, so nothing stands in its place",)


def test_variables_that_need_each_other_end(project: Project) -> None:
    project.write(".env", "A=${B}a\nB=${A:-x}b\n")
    project.read()
    assert project.environ["A"] == "xba"


@pytest.mark.parametrize("password", ["p#/@:%+ word", 'quo"te', "dol$lar${X}", "ünï"])
def test_a_password_survives_in_single_quotes(project: Project, password: str) -> None:
    project.write(".env", f"REDIS_PASSWORD='{password}'\n")
    secret = project.read().core.redis.password
    assert secret is not None
    assert secret.get_secret_value() == password


def test_the_origin_is_the_file_and_line(project: Project) -> None:
    project.write(".env", "\n# comment\n\nWORKER_PROCESSES=2\n")
    project.write(".env.local", "A=1\nWORKER_POLL=5s\n")
    loaded = project.read()
    assert (str(loaded.origins["processes"]), str(loaded.origins["poll"])) == (".env:4", ".env.local:2")
    assert loaded.origins["poll"].source is Source.ENV_LOCAL


def test_a_child_that_inherits_the_variables_names_the_file_too(project: Project) -> None:
    project.write(".env", "WORKER_PROCESSES=2\n")
    project.read()
    inherited = dict(project.environ)
    assert str(project.read(inherited).origins["processes"]) == ".env:1"
    assert str(project.read({"WORKER_PROCESSES": "3"}).origins["processes"]) == "environment"


def test_a_wrong_value_names_the_file_and_line(project: Project) -> None:
    project.write(".env", "A=1\nWORKER_PROCESSES=many\n")
    problem = project.problem()
    assert (problem.name, problem.value, problem.origin) == ("WORKER_PROCESSES", "many", ".env:2")


def test_a_line_that_cannot_be_read_stops_the_start(project: Project) -> None:
    project.write(".env", "A=1\nB='never closed\nWORKER_PROCESSES=0\n")
    names = [problem.name for problem in project.problems()]
    assert names == [".env:2", "WORKER_PROCESSES"]


def test_bytes_that_are_no_text_stop_the_start(project: Project) -> None:
    (project.folder / ".env").write_bytes(b"A=\xff\xfe\n")
    assert str(project.problem()) == ".env: cannot be read: it is not UTF-8 text"


def test_a_nul_character_stops_the_start(project: Project) -> None:
    project.write(".env", "A=a\0b\n")
    problem = project.problem()
    assert (problem.name, problem.origin) == ("A", ".env:1")
    assert "A" not in project.environ


def test_a_byte_order_mark_is_skipped(project: Project) -> None:
    (project.folder / ".env").write_bytes("\ufeffWORKER_PROCESSES=2\n".encode())
    assert project.read().core.processes == 2


def test_a_folder_named_dot_env_is_a_virtual_environment(project: Project) -> None:
    (project.folder / ".env").mkdir()
    assert project.read().core.processes == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_stops_the_start(project: Project) -> None:
    project.write(".env", "A=1\n").chmod(0)
    assert "Permission denied" in project.problem().message


def test_they_are_read_from_the_working_directory_only(project: Project) -> None:
    project.write(".env", "WORKER_PROCESSES=2\n")
    project.write("sub/.env.local", "WORKER_POLL=3s\n")
    loaded = project.read()
    assert (loaded.core.processes, str(loaded.core.poll)) == (2, "10s")


def test_a_settings_file_may_be_named_in_them(project: Project) -> None:
    project.write("deploy/prod.yaml", "processes: 8\n")
    project.write(".env", "WORKER_CONFIG=deploy/prod.yaml\n")
    loaded = project.read()
    assert (loaded.core.processes, str(loaded.origins["processes"])) == (8, "deploy/prod.yaml:1")
    project.write(".env", "WORKER_CONFIG=gone.yaml\n")
    problem = project.problem()
    assert (problem.name, problem.value, problem.origin) == ("WORKER_CONFIG", "gone.yaml", ".env:1")


def test_the_local_file_wins_under_another_name_too(project: Project) -> None:
    project.write(".env", "WORKER_TIMEZONE=UTC\n")
    project.write(".env.local", "WORKER_SCHEDULER__TIMEZONE=Asia/Tokyo\n")
    assert project.read().core.timezone == "Asia/Tokyo"
