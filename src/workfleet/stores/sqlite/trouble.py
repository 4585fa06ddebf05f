"""What is wrong with a store file, in words: from SQLite's error and a look at the file to a `StoreUnavailable`."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import apsw

from workfleet.errors import StoreUnavailable

_OURS = (apsw.ConstraintError, apsw.MisuseError, apsw.MismatchError, apsw.RangeError, apsw.TooBigError)
"""Errors of a call, not of the store: they go to the caller as they are."""

_ADVICE: dict[type[apsw.Error], tuple[str, str]] = {
    apsw.BusyError: (
        "another process has kept it locked for too long",
        "End what holds a transaction on it, such as a backup or a database shell",
    ),
    apsw.FullError: ("there is no space left on its disk", "Free some space; the store goes on by itself"),
    apsw.ReadOnlyError: ("it cannot be written", "Make the file and its folder writable for the user of this process"),
    apsw.PermissionsError: ("it cannot be opened", "Give the user of this process access to the file and its folder"),
    apsw.CorruptError: (
        "its file is damaged",
        "Stop everything that uses it, and restore a backup or move the file away to begin an empty one",
    ),
    apsw.NotADBError: ("its file is not a SQLite database", "Check WORKER_STORE, or move the file away"),
    apsw.IOError: ("its file cannot be read or written", "Check the disk and its free space"),
}


def is_trouble(error: apsw.Error) -> bool:
    """Whether it is the store's trouble, and not a mistake in a call."""
    return not isinstance(error, _OURS)


def sqlite_url(path: Path) -> str:
    """The store's URL."""
    return "sqlite:///" + quote(str(path).lstrip("/"), safe="/~")


def unavailable(path: Path, error: apsw.Error) -> StoreUnavailable:
    """An error of SQLite, explained."""
    if isinstance(error, apsw.CantOpenError) or not os.path.exists(path):
        return _cannot_open(path, error)
    reason, advice = next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), ("SQLite failed", ""))
    return StoreUnavailable(sqlite_url(path), f"{reason} ({error})", advice)


def unforeseen(path: Path, error: Exception) -> StoreUnavailable:
    """Something that is no error of SQLite has ended a transaction."""
    advice = "The next call makes a new connection; where it happens again, report it"
    failed = StoreUnavailable(sqlite_url(path), f"it failed unexpectedly ({type(error).__name__}: {error})", advice)
    failed.__cause__ = error
    return failed


def missing(path: Path) -> StoreUnavailable:
    """There is no file, and this call may not make one."""
    advice = "`workfleet run` makes it; check WORKER_STORE if it should be there"
    return StoreUnavailable(sqlite_url(path), "there is no such file", advice)


def gone(path: Path) -> StoreUnavailable:
    """The file was deleted or replaced while it was open."""
    reason = "its file was deleted or replaced while it was in use"
    advice = "Put it back where it was; or stop everything that uses it and run again, which begins an empty one"
    return StoreUnavailable(sqlite_url(path), reason, advice)


def newer(path: Path, found: int, known: int, *, running: bool) -> StoreUnavailable:
    """The file was written by a newer release, perhaps while this program had it open."""
    if running:
        reason = f"a newer workfleet has migrated it under this process (schema {found}, this one knows {known})"
        return StoreUnavailable(sqlite_url(path), reason, "Restart this process with the newer release")
    reason = f"it was made by a newer workfleet (schema {found}, this one knows {known})"
    return StoreUnavailable(sqlite_url(path), reason, "Upgrade this workfleet, or use another file")


def foreign(path: Path, tables: list[str]) -> StoreUnavailable:
    """The file is somebody else's database."""
    reason = f"it is the database of something else (tables {', '.join(sorted(tables)[:5])})"
    advice = "Give the store a file of its own: two SQLite libraries on one file in one process lose committed rows"
    return StoreUnavailable(sqlite_url(path), reason, advice)


def on_network(path: Path, kind: str) -> StoreUnavailable:
    """The file is on a file system whose locks cannot be trusted."""
    reason = f"it is on a network file system ({kind}), whose locks cannot be trusted"
    return StoreUnavailable(
        sqlite_url(path), reason, "Put it on a local disk; a fleet of machines needs the Redis store"
    )


def no_wal(path: Path, mode: str) -> StoreUnavailable:
    """The file system cannot hold a write-ahead log."""
    reason = f"its file system cannot hold a write-ahead log (journal mode stays {mode})"
    return StoreUnavailable(sqlite_url(path), reason, "Put it on a local disk")


def no_folder(path: Path, error: OSError) -> StoreUnavailable:
    """The folder of the file cannot be made."""
    reason = f"its folder {path.parent} cannot be made ({error.strerror})"
    return StoreUnavailable(sqlite_url(path), reason, "Make it yourself, or choose another place with WORKER_STORE")


def in_use(path: Path) -> StoreUnavailable:
    """A copy cannot take the place of a store that is in use."""
    return StoreUnavailable(
        sqlite_url(path), "a store in use is in the place of the copy", "Choose another place for it"
    )


def unreachable(path: Path, error: OSError) -> StoreUnavailable:
    """The system does not let this process near the file."""
    advice = "Give the user of this process access to the file and its folder"
    return StoreUnavailable(sqlite_url(path), f"it cannot be reached ({error.strerror})", advice)


def _cannot_open(path: Path, error: apsw.Error) -> StoreUnavailable:
    if os.path.isdir(path):
        return StoreUnavailable(sqlite_url(path), "it is a folder, not a file", "Check WORKER_STORE")
    if not os.path.exists(path):
        return missing(path)
    advice = "The user of this process must be able to write the file and its folder, where SQLite keeps its log"
    return StoreUnavailable(sqlite_url(path), f"it cannot be opened ({error})", advice)
