"""Help, usage errors and the boundary of the process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
import pytest

from workfleet.cli.main import _COMMANDS, _Commands, main

from .conftest import Project, clean, command, wait_for


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from leaves(found, (*path, name))


ALL = dict(leaves(_Commands()))


def test_the_verbs_are_those_of_the_issue() -> None:
    assert {" ".join(path) for path in ALL} == {
        "run",
        "dev",
        "enqueue",
        "status",
        "doctor",
        "metrics",
        "metrics ls",
        "metrics query",
        "metrics export",
        "queues",
        "queues ls",
        "queues show",
        "queues pause",
        "queues resume",
        "queues purge",
        "jobs",
        "jobs ls",
        "jobs show",
        "jobs explain",
        "jobs logs",
        "jobs retry",
        "jobs cancel",
        "jobs delete",
        "jobs promote",
        "schedules",
        "schedules ls",
        "schedules next",
        "schedules show",
        "schedules history",
        "schedules run",
        "schedules add",
        "schedules pause",
        "schedules resume",
        "schedules remove",
        "locks",
        "locks ls",
        "locks release",
        "workers",
        "workers ls",
        "workers quiet",
        "workers stop",
        "workers recycle",
        "pools",
        "pools ls",
        "pools scale",
        "pools recycle",
        "probe",
        "init",
        "config",
        "config show",
        "config check",
        "cron",
        "bench",
        "version",
    }


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    if path == ("probe",):  # its own file prints its help
        assert main(["--debug", "probe", "-h"]) == 0
        assert capsys.readouterr().out.startswith("Usage: workfleet probe live|ready|startup")
        return
    for flag in ("-h", "--help"):
        assert main([*path, flag]) == 0
        out = capsys.readouterr().out
        assert f"Usage: workfleet {' '.join(path)} " in out
        assert "Example" in out
        assert f"  workfleet {path[0]}" in out.split("Example")[1]


_WITHOUT_JSON = {
    ("run",), ("dev",), ("probe",),  # they write logs, or a line for a container's runtime
    ("init",), ("config", "check"), ("metrics", "export"),  # files, a yes or no, the formats of others
}  # fmt: skip


def test_every_verb_that_lists_or_acts_speaks_json() -> None:
    verbs = {path: found for path, found in ALL.items() if not isinstance(found, click.Group)}
    without = {path for path, found in verbs.items() if all("--json" not in param.opts for param in found.params)}
    assert without == _WITHOUT_JSON


def test_help_lists_every_command_once_and_imports_no_more_than_click(project: Project) -> None:
    code = "import sys; from workfleet.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    python = command()[0]
    done = subprocess.run([python, "-c", code, "-h"], capture_output=True, text=True, env=clean({}), check=True)
    *told, modules = done.stdout.splitlines()
    names = [line.split()[0] for line in told if line.startswith("  ") and line[2].isalpha()]
    commands = [name for names in _COMMANDS.values() for name in names]
    assert [name for name in names if name in commands] == commands
    heavy = {"pydantic", "dishka", "msgspec", "apsw", "rich", "workfleet.app", "workfleet.settings"}
    assert heavy.isdisjoint(modules.split())


def test_the_supervisor_brings_no_application_machinery_along() -> None:
    code = "import sys, workfleet.cli.run; print(*sys.modules)"
    done = subprocess.run([command()[0], "-c", code], capture_output=True, text=True, env=clean({}), check=True)
    heavy = {"dishka", "structlog", "opentelemetry", "rich", "workfleet.app.app", "workfleet.pools", "workfleet.guards"}
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["quues", "ls"], "No such command 'quues'. (Did you mean one of: 'enqueue', 'queues'?)"),
        (["jobs", "lst"], "No such command 'lst'"),
        (["jobs", "ls", "--sate", "failed"], "--sate"),
        (["jobs", "ls", "--state", "broken"], "'broken' is not one of 'waiting'"),
        (["jobs", "ls", "--limit", "0"], "--limit"),
        (["jobs", "ls", "--limit", "99999999999999999999"], "is not in the range 1<=x<=100000"),
        (["jobs", "ls", "--older-than", "90"], "--older-than: '90' has no unit: write '90s'"),
        (["jobs", "ls", "--newer-than", "2026-13-01"], "--newer-than '2026-13-01': it is no instant such as"),
        (["schedules", "next", "-n", "99999999999999999999"], "is not in the range 1<=x<=100000"),
        (["jobs", "show"], "Missing argument 'ID'"),
        (["run", "--processes", "0"], "--processes"),
        (["run", "--fail-on-failed"], "--fail-on-failed needs --until-idle"),
        (["run", "a", "b"], "unexpected extra argument (b)"),
        (["run", ""], "the application's name is empty: leave it out, or write a file or module:attr"),
        (["queues", "ls", "--app", " "], "the application's name is empty"),
        (["jobs", "retry"], "say which jobs: their ids, filters such as --queue NAME, or --all"),
        (["jobs", "delete"], "say which jobs: their ids"),
        (["jobs", "cancel", "x", "--all"], "by their ids, with --queue where that is needed, or by filters: not both"),
        (["jobs", "promote", "x", "--queue", "q", "--tag", "t"], "not both"),
        (["queues", "purge", "q", "--state", "active"], "'active' is not one of"),
        (["workers", "stop"], "say which workers: their ids, or --all"),
        (["workers", "stop", "x", "--all"], "say which workers"),
        (["enqueue", "q"], "Missing argument 'NAME'"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2_and_says_what_is_wrong(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_every_option_is_used_in_a_test() -> None:
    tests = Path(__file__).parent.parent
    used = "".join(file.read_text() for file in tests.rglob("*.py"))
    options = {
        (" ".join(path), param.opts[-1])
        for path, found in ALL.items()
        for param in found.params
        if isinstance(param, click.Option)
    }
    assert ("workers quiet", "--undo") in options
    assert [each for each in sorted(options) if not any(f'"{name}' in used for name in _names(*each))] == []


def _names(path: str, name: str) -> list[str]:
    found = [param.opts + param.secondary_opts for param in ALL[tuple(path.split())].params if name in param.opts]
    return [each for names in found for each in names]


def test_without_a_command_help_is_shown_and_the_code_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: workfleet [OPTIONS] COMMAND" in capsys.readouterr().err


def test_version(project: Project) -> None:
    assert project("--version").out == "workfleet 0.1.0\n"
    ran = project("version")
    assert ran.code == 0
    assert ran.out.splitlines()[0].split() == ["workfleet", "0.1.0"]
    (document,) = project("version", "--json").documents
    assert list(document) == [
        "workfleet", "python", "sqlite", "redis", "hiredis", "psycopg", "opentelemetry", "otel sdk", "platform",
    ]  # fmt: skip
    assert document["sqlite"].startswith("3.")
    assert document["opentelemetry"] == version("opentelemetry-api")


def test_version_of_what_is_not_installed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("workfleet.cli.version.installed", nothing)
    (document,) = project("version", "--json").documents
    assert (document["redis"], document["sqlite"]) == ("not installed", "missing")


def test_a_fault_of_our_own_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("lost my way")

    monkeypatch.delenv("WORKFLEET_DEBUG", raising=False)
    monkeypatch.setattr(_Commands, "invoke", fail)
    assert main(["version"]) == 1
    assert capsys.readouterr().err.startswith("Error: RuntimeError: lost my way. This is a fault of workfleet")


def test_a_closed_pipe_is_no_error(project: Project) -> None:
    running = subprocess.Popen(
        command("config", "show"), cwd=project.folder, env=clean({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    err = running.stderr.read()
    running.stderr.close()
    assert (running.wait(30), err) == (141, b"")


def test_ctrl_c_exits_130_without_a_traceback(project: Project) -> None:
    project.write("app.py", "import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    running = project.start("queues", "ls")
    assert running.stderr is not None
    assert wait_for(running.stderr.readline, "the import") == "importing\n"
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "", "")
