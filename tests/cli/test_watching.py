"""Which changes of which files are seen, by both watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from workfleet.cli.watching import LookingWatcher, NotifiedWatcher, Watcher, is_watched, watcher
from workfleet.clock import SystemClock


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("app.py", "a/b.py", "env/lib/x.py", ".venv/x.py", ".workfleet/x.py", "node_modules/x.py", "a/n.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "env/pyvenv.cfg").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("app.py", True),
        ("a/b.py", True),
        (".env", True),
        (".env.local", True),
        ("workfleet.yaml", True),
        ("a/more.yml", True),
        ("pyproject.toml", True),
        ("other.toml", False),
        ("a/n.txt", False),
        (".#app.py", False),
        ("env/lib/x.py", False),
        (".venv/x.py", False),
        (".workfleet/x.py", False),
        ("node_modules/x.py", False),
        ("../outside.py", False),
    ],
)
def test_which_files_count(tree: Path, name: str, counts: bool) -> None:
    assert is_watched((tree / name).resolve(), tree) is counts


def test_a_project_below_a_hidden_folder_is_watched(tmp_path: Path) -> None:
    assert is_watched(tmp_path / ".cache/project/app.py", tmp_path / ".cache/project")


KINDS: dict[str, Callable[[Path], Watcher]] = {
    "looking": lambda folder: LookingWatcher([folder], SystemClock()),
    "notified": lambda folder: NotifiedWatcher([folder]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["write", "create", "delete"])
async def test_a_change_is_seen_and_named(tree: Path, kind: str, change: str) -> None:
    seen = asyncio.create_task(KINDS[kind](tree).changed())
    await asyncio.sleep(0)  # it watches from its first step on
    for quiet in (".venv/x.py", "a/a.txt", "a/.#b.py"):  # all sort before what counts, and would be named
        (tree / quiet).write_text("no matter")
    path = tree / ("b.py" if change == "create" else "a/b.py")
    if change == "delete":
        path.unlink()
    else:
        path.write_text("x = 1\n")
    assert await asyncio.wait_for(seen, 10) == path


def test_watchfiles_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert isinstance(watcher([tmp_path], SystemClock()), NotifiedWatcher)
    monkeypatch.setitem(__import__("sys").modules, "watchfiles", None)
    assert isinstance(watcher([tmp_path], SystemClock()), LookingWatcher)
