"""Opening the store file: what is refused, how a connection is set up, and how long it waits for others."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass
from pathlib import Path

import apsw

from .schema import VERSION, foreign_tables, migrate, stored_version, usable
from .trouble import foreign, gone, missing, newer, no_folder, no_wal, on_network, unavailable, unreachable

_TRIES = 1_000
_CACHE_KIB = 16_000
_WAL_PAGES = 4_000
_WAL_KEPT_BYTES = 64 * 1024 * 1024
_STATEMENTS = 200
_NETWORK = frozenset(
    "afs beegfs ceph cifs coda fuse.cephfs fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs glusterfs lustre ncpfs "
    "nfs nfs4 smb2 smb3 smbfs".split()
)


class Patience:
    """A busy handler: waits for another process's lock in short jittered steps, about ten seconds in all."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def __call__(self, tries: int) -> bool:
        # Short at first, because a commit takes about a millisecond; jittered, so that waiters do not come in step.
        return tries < _TRIES and not self._over.wait(random.uniform(0.0002, min(0.001 * (tries + 1), 0.02)))

    def end(self) -> None:
        """Wait no more."""
        self._over.set()


@dataclass
class Database:
    """An open connection, and which file it is on."""

    db: apsw.Connection
    path: Path
    file: tuple[int, int]
    seen: int = -1
    """SQLite's own count of schema changes, when the version was looked at last."""

    def check(self) -> None:
        """Raise `StoreUnavailable` when the path is another file by now: SQLite would write to one that nobody sees."""
        if _identity(self.path) != self.file:
            raise gone(self.path)

    def check_version(self) -> None:
        """Raise `StoreUnavailable` when a newer program has migrated the file so that this one cannot go on.

        To be called in a transaction: then it holds for that."""
        now = self.db.pragma("schema_version")
        if now != self.seen:
            if not usable(self.db):
                raise newer(self.path, stored_version(self.db), VERSION, running=self.seen != -1)
            self.seen = now


def connect(path: Path, *, create: bool, patience: Patience) -> Database:
    """A connection for writing, to a file of the newest schema. Raises `StoreUnavailable`."""
    try:
        existed = _prepare(path, create=create)
        db = _open(path, patience, create=create)
        try:
            if not existed:
                # By its path, never by a descriptor: closing one would drop the locks of this process's connections.
                path.chmod(0o600)
            _set_up(db, path)
            return Database(db, path, _identity(path))
        except BaseException:
            db.close()
            raise
    except apsw.Error as error:
        raise unavailable(path, error) from error
    except OSError as error:
        raise unreachable(path, error) from error


def connect_reader(path: Path, *, patience: Patience) -> Database:
    """A connection that cannot write, to a file that a writer of this store has set up. Raises `StoreUnavailable`."""
    try:
        _prepare(path, create=False)
        db = _open(path, patience, create=False)
        db.pragma("query_only", True)
        return Database(db, path, _identity(path))
    except apsw.Error as error:
        raise unavailable(path, error) from error
    except OSError as error:
        raise unreachable(path, error) from error


def filesystem(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The kind of file system that holds a path, None where the system does not say (man 5 proc_pid_mountinfo)."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        left, _, right = line.partition(" - ")
        # Bytes such as a space are written as \\040.
        escaped = left.split()[4].encode(errors="surrogateescape").decode("unicode_escape")
        point = escaped.encode("latin-1").decode(errors="surrogateescape")
        # The last of several mounts on one point is the one that is seen.
        if path.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def _prepare(path: Path, *, create: bool) -> bool:
    """Refuse what cannot work, and make the folder. Returns whether the file exists."""
    existed = path.exists()
    if not existed and not create:
        raise missing(path)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise no_folder(path, error) from error
    kind = filesystem(path.parent.resolve())
    if kind in _NETWORK:
        raise on_network(path, kind)
    return existed


def _open(path: Path, patience: Patience, *, create: bool) -> apsw.Connection:
    # NOMUTEX: a connection is used by its lane's thread only.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    db = apsw.Connection(
        str(path), flags=flags | (apsw.SQLITE_OPEN_CREATE if create else 0), statementcachesize=_STATEMENTS
    )
    db.set_busy_handler(patience)
    db.pragma("cache_size", -_CACHE_KIB)
    db.pragma("temp_store", "memory")
    return db


def _set_up(db: apsw.Connection, path: Path) -> None:
    if db.readonly("main"):
        raise unavailable(path, apsw.ReadOnlyError("the file is read-only"))
    found = stored_version(db)
    if not usable(db):
        raise newer(path, found, VERSION, running=False)
    if not found and (tables := foreign_tables(db)):
        raise foreign(path, tables)
    mode = db.pragma("journal_mode", "wal")
    if mode != "wal":
        raise no_wal(path, str(mode))
    db.pragma("synchronous", "full")
    db.pragma("wal_autocheckpoint", _WAL_PAGES)
    db.pragma("journal_size_limit", _WAL_KEPT_BYTES)
    migrate(db)


def _identity(path: Path) -> tuple[int, int]:
    try:
        facts = os.stat(path)
    except OSError:
        return (0, 0)
    return (facts.st_dev, facts.st_ino)
