"""The programs are accepted by mypy --strict and pyright in strict mode, and each wrong use is rejected by both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WRONG = HERE / "wrong.py"
RIGHT = sorted(path for path in HERE.rglob("*.py") if path != WRONG)


def marked() -> list[int]:
    lines = WRONG.read_text("utf-8").splitlines()
    return [number for number, line in enumerate(lines, start=1) if line.endswith("# E")]


def run(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    quiet = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", tool, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)


def by_mypy(version: str) -> dict[Path, set[int]]:
    """The lines of errors by file, when everything is checked in one go."""
    cache = ROOT / ".mypy_cache" / "typing"
    done = run("mypy", "--output=json", f"--python-version={version}", f"--cache-dir={cache}", *RIGHT, WRONG)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[Path, set[int]] = {}
    for line in done.stdout.splitlines():
        message: dict[str, Any] = json.loads(line)
        if message["severity"] == "error":
            found.setdefault(ROOT / message["file"], set()).add(message["line"])
    return found


def test_there_are_programs_and_wrong_uses() -> None:
    names = {path.relative_to(HERE).as_posix() for path in RIGHT}
    assert {"one.py", "shop/mail.py", "api.py", "shop/media.py", "fleet.py", "runtime.py", "options.py"} <= names
    assert len(marked()) == 67


@pytest.mark.full
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_mypy_rejects_the_wrong_uses_and_nothing_else(version: str) -> None:
    assert {path: sorted(lines) for path, lines in by_mypy(version).items()} == {WRONG: marked()}


def test_pyright_rejects_the_wrong_uses_and_nothing_else(tmp_path: Path) -> None:
    if run("pyright", "--version").returncode:
        pytest.skip("pyright cannot be started: its package fetches it from npm at first use")
    project = tmp_path / "pyrightconfig.json"
    settings = {
        # It takes no absolute paths here.
        "include": [os.path.relpath(path, tmp_path) for path in (*RIGHT, WRONG)],
        "extraPaths": [os.path.relpath(path, tmp_path) for path in (ROOT / "src", HERE)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    project.write_text(json.dumps(settings))
    done = run("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", project)
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(RIGHT) + 1
    found: dict[Path, set[int]] = {}
    for each in report["generalDiagnostics"]:
        found.setdefault(Path(each["file"]), set()).add(each["range"]["start"]["line"] + 1)
    assert {path: sorted(lines) for path, lines in found.items()} == {WRONG: marked()}
