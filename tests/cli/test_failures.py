"""Errors as a person reads them: the place in the user's code, never a traceback unless asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workfleet.cli.failures import where_it_failed, without_traceback

from .conftest import Project


def trace_of(code: str, folder: Path) -> str:
    """The traceback of a file that fails when it is run."""
    file = folder / "mine.py"
    file.write_text(code)
    return subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, cwd=folder).stderr


@pytest.mark.parametrize(
    ("code", "line", "message"),
    [
        ("x = 1\n\nfoo()\n", 3, "NameError: name 'foo' is not defined"),
        ("import json\njson.loads('{')\n", 2, "json.decoder.JSONDecodeError: Expecting property name enclosed in"),
        ("import yaml\nyaml.safe_load('a: [')\n", 2, "yaml.parser.ParserError: while parsing a flow node"),
        ("def f(:\n    pass\n", 1, "SyntaxError: invalid syntax"),
        ("raise ValueError('first\\n  second')\n", 1, "ValueError: first\n  second"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise OSError('x') from e\n", 4, "OSError: x"),
        ("import nowhere.at.all\n", 1, "ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit('no database')\n", None, "no database"),
    ],
)
def test_the_last_place_in_own_code(code: str, line: int | None, message: str, tmp_path: Path) -> None:
    told = where_it_failed(trace_of(code, tmp_path))
    assert told.startswith(f"{tmp_path / 'mine.py'}:{line}: {message}" if line else message)


def test_the_last_place_at_all_where_none_is_the_users() -> None:
    frames = f'  File "<string>", line 1, in <module>\n  File "{json.__file__}", line 346, in loads\n    x\n'
    assert where_it_failed(f"{frames}KeyError: 1") == f"{json.__file__}:346: KeyError: 1"
    assert where_it_failed("KeyError: 1") == "KeyError: 1"


def test_a_traceback_behind_a_message_is_shortened_unless_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/app.py", line 3, in <module>\n    foo()\nKeyError: 1'
    message = f"cannot start:\n{trace}"
    monkeypatch.delenv("WORKFLEET_DEBUG", raising=False)
    assert without_traceback(message) == "cannot start: /srv/app.py:3: KeyError: 1\n(--debug shows the traceback)"
    monkeypatch.setenv("WORKFLEET_DEBUG", "1")
    assert without_traceback(message) == message
    assert without_traceback("plain\nlines") == "plain\nlines"


BROKEN = {
    "import nowhere\n": ("app.py:1: ModuleNotFoundError: No module named 'nowhere'", 78),
    "from workfleet import App\n\napp = App(1/0)\n": ("app.py:3: ZeroDivisionError: division by zero", 78),
    "app = (\n": ("app.py:1: SyntaxError: '(' was never closed", 78),
    "raise SystemExit(3)\n": ("app.py:1: SystemExit: 3", 78),
    "from workfleet import App\napp = App('a')\n@app.schedule(cron='61 * * * *')\nasync def f() -> None: ...\n": (
        "app.py:3: ",
        78,
    ),
    "app = 3\n": ("'app' in app.py is no App but 3", 78),
    "from workfleet import App\nshop = App('shop')\n": ("did you mean app.py:shop?", 78),
}


@pytest.mark.parametrize("source", BROKEN)
def test_an_application_that_cannot_be_imported_exits_78_with_the_place(source: str, bare: Project) -> None:
    bare.write("app.py", source)
    told, exit_code = BROKEN[source]
    code, out, err = bare("queues", "ls", "--app", "app.py")
    assert (code, out) == (exit_code, "")
    assert told in err
    assert "Traceback" not in err


def test_debug_shows_the_whole_traceback_by_option_and_by_variable(bare: Project) -> None:
    bare.write("app.py", "def load() -> None:\n    raise KeyError('deep')\n\n\nload()\n")
    for ran in (
        bare("queues", "ls", "-a", "app.py", "--debug"),
        bare("--debug", "queues", "ls", "-a", "app.py"),
        bare("queues", "ls", "-a", "app.py", WORKFLEET_DEBUG="1"),
    ):
        assert ran.code == 78
        assert "Traceback (most recent call last):" in ran.err
        assert "in load" in ran.err


def test_what_an_application_prints_while_it_is_imported_is_not_in_the_listing(bare: Project) -> None:
    bare.write("app.py", "from workfleet import App\nprint('noise')\napp = App('a')\n")
    code, out, err = bare("config", "show", "app.py", "--json", "--given")
    assert code == 0
    assert "noise" in err
    assert all(json.loads(line) for line in out.splitlines())
