"""Sees changes of a project's source and settings files: with watchfiles where it is installed, else by looking.

What counts is *.py, *.yaml, .env and pyproject.toml below the given folders. Hidden folders (.venv, .git, .workfleet),
virtual environments of any name and node_modules are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ..ports.clock import Clock

_SUFFIXES = (".py", ".yaml", ".yml")
_NAMES = (".env", ".env.local", "pyproject.toml")
_LOOK_S = 1.0
_SETTLE_MS = 300

State = dict[str, tuple[int, int]]


class Watcher(Protocol):
    """What waits for a change."""

    async def changed(self) -> Path:
        """Wait for the next change. What happened before the call began is not seen."""
        ...


def watcher(folders: Sequence[Path], clock: Clock) -> Watcher:
    """The better watcher that this machine has."""
    try:
        import watchfiles  # noqa: F401 - an extra
    except ImportError:
        return LookingWatcher(folders, clock)
    return NotifiedWatcher(folders)


class NotifiedWatcher:
    """Told by the operating system, through watchfiles."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    async def changed(self) -> Path:
        from watchfiles import Change, awatch

        def counts(_change: Change, path: str) -> bool:
            return any(is_watched(Path(path), folder) for folder in self._folders)

        async for changes in awatch(*self._folders, watch_filter=counts, debounce=_SETTLE_MS):
            return Path(min(path for _, path in changes))
        raise RuntimeError("watchfiles stopped watching")


class LookingWatcher:
    """Looks at times and sizes of all files, once a second."""

    def __init__(self, folders: Sequence[Path], clock: Clock) -> None:
        self._folders, self._clock = folders, clock

    async def changed(self) -> Path:
        before = self._state()
        while True:
            await self._clock.sleep(_LOOK_S)
            now = self._state()
            if now != before:
                return Path(min(path for path, _ in now.items() ^ before.items()))

    def _state(self) -> State:
        return {path: facts for folder in self._folders for path, facts in _files(folder)}


def is_watched(path: Path, folder: Path) -> bool:
    """Whether a change of that file below that folder counts."""
    if not path.is_relative_to(folder) or not _is_source(path.name):
        return False
    parents = [parent for parent in path.parents if parent != folder and parent.is_relative_to(folder)]
    return not any(_is_left_out(parent) for parent in parents)


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(Path(parent, name))]
        for name in filter(_is_source, names):
            path = os.path.join(parent, name)
            try:
                facts = os.stat(path)
            except OSError:
                continue  # deleted meanwhile
            yield path, (facts.st_mtime_ns, facts.st_size)


def _is_source(name: str) -> bool:
    return name in _NAMES or (name.endswith(_SUFFIXES) and not name.startswith("."))


def _is_left_out(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name == "node_modules" or (folder / "pyvenv.cfg").exists()
