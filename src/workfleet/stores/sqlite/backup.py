"""A copy of a store file while it is in use."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import apsw

from .connect import Patience
from .trouble import in_use, missing, no_folder, unavailable, unreachable

_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX


def backup(path: Path | str, to: Path | str) -> None:
    """Copy the store file `path` to `to`, which is replaced as a whole, once the copy is complete and on disk.

    The copy is of one instant: what had been acknowledged before the call is in it. Workers go on meanwhile; the file's
    log cannot shrink until it is done. Call it in any process that does not hold `path` open by another SQLite library.
    Raises `StoreUnavailable`, and then `to` is as it was.
    """
    path, to = Path(path), Path(to)
    if not path.exists():
        raise missing(path)
    # A log beside it belongs to a store that is in use: to replace the file under it would damage that.
    if Path(f"{to}-wal").exists() or (to.exists() and to.samefile(path)):
        raise in_use(to)
    part = to.with_name(f"{to.name}.{secrets.token_hex(4)}.part")
    try:
        _copy(path, part)
        os.replace(part, to)
        _keep_name(to.parent)
    except apsw.CantOpenError as error:
        raise no_folder(to, OSError(0, str(error))) from error
    except apsw.Error as error:
        raise unavailable(path, error) from error
    except OSError as error:
        raise unreachable(to, error) from error
    finally:
        part.unlink(missing_ok=True)


def _copy(path: Path, part: Path) -> None:
    # Made by us, so that only this user can read it from the beginning.
    part.touch(mode=0o600)
    source, copy = apsw.Connection(str(path), flags=_FLAGS), apsw.Connection(str(part), flags=_FLAGS)
    try:
        source.set_busy_handler(Patience())
        with copy.backup("main", source, "main") as copying:
            # All in one step: in several, every commit of a worker would begin it anew.
            while not copying.done:
                copying.step(-1)
        copy.pragma("journal_mode", "delete")
    finally:
        copy.close()
        source.close()


def _keep_name(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
