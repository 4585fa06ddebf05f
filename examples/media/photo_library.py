"""The service's own database: which files are in the inbox, and what became of each photo. Knows no jobs.

A photo is a content: the same picture under two names is one row. A row is made once (`record`), settled once
(`finish`), and no method minds being called again, because after a crash every one of them is.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from photo_files import File
from photo_images import Facts
from photo_settings import PhotoSettings

TABLES = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    sha TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS files_by_sha ON files (sha);
CREATE TABLE IF NOT EXISTS photos (
    sha TEXT PRIMARY KEY,
    key TEXT NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(12)))), -- another one if the photo is removed and comes back
    path TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'done', 'rejected')),
    runs INTEGER NOT NULL DEFAULT 0, -- how often work on it began: 2 if the first time was cut short
    width INTEGER,
    height INTEGER,
    format TEXT,
    colour TEXT,
    exif TEXT,
    reason TEXT, -- why it was rejected
    settled_at TEXT -- UTC
);
CREATE INDEX IF NOT EXISTS photos_by_state ON photos (state);
"""

RECORD_PHOTOS = """
INSERT INTO photos (sha, path) SELECT sha, min(path) FROM files GROUP BY sha ON CONFLICT (sha) DO NOTHING
"""
FOLLOW_RENAMES = """
UPDATE photos SET path = (SELECT min(path) FROM files WHERE sha = photos.sha)
WHERE sha IN (SELECT sha FROM files) AND path NOT IN (SELECT path FROM files WHERE sha = photos.sha)
"""
WAITING = """
SELECT key, path, sha FROM photos WHERE state = 'new' AND sha IN (SELECT sha FROM files) ORDER BY path
"""
START = "UPDATE photos SET runs = runs + 1 WHERE key = ? AND state <> 'done'"
FINISH = """
UPDATE photos SET state = 'done', width = ?, height = ?, format = ?, colour = ?, exif = ?, reason = NULL,
    settled_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
WHERE key = ? AND state <> 'done'
"""
REJECT = """
UPDATE photos SET state = 'rejected', reason = ?, settled_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
WHERE key = ? AND state <> 'done'
"""
DONE = "SELECT * FROM photos WHERE state = 'done' ORDER BY settled_at DESC, path LIMIT ?"
REJECTED = """
SELECT path, reason FROM photos WHERE state = 'rejected' AND sha IN (SELECT sha FROM files) ORDER BY path LIMIT ?
"""
COUNTS = """
SELECT state, count(*) AS n FROM photos WHERE state = 'done' OR sha IN (SELECT sha FROM files) GROUP BY state
"""


@dataclass(frozen=True)
class NewPhoto:
    """A photo to be done: the payload of its job."""

    key: str
    path: str
    sha: str


@dataclass(frozen=True)
class DonePhoto:
    path: str
    sha: str
    facts: Facts


@dataclass(frozen=True)
class Rejected:
    path: str
    reason: str


@dataclass(frozen=True)
class Counts:
    new: int
    done: int
    rejected: int


class Library:
    """Opens the database for each call, so that any thread and process may use it."""

    def __init__(self, settings: PhotoSettings) -> None:
        self._database = settings.database
        self._database.parent.mkdir(parents=True, exist_ok=True)
        with self._writing() as db:
            for statement in TABLES.split(";\n"):
                db.execute(statement)

    # What the scan sees.

    def files(self) -> dict[str, File]:
        """The inbox as it was recorded last, by path."""
        with self._reading() as db:
            return {row["path"]: File(**row) for row in db.execute("SELECT path, size, mtime_ns, sha FROM files")}

    def record(self, files: Sequence[File]) -> int:
        """The inbox holds exactly these files now. Returns how many photos are new."""
        rows = [(file.path, file.size, file.mtime_ns, file.sha) for file in files]
        with self._writing() as db:
            db.execute("DELETE FROM files")
            db.executemany("INSERT INTO files (path, size, mtime_ns, sha) VALUES (?, ?, ?, ?)", rows)
            new = db.execute(RECORD_PHOTOS).rowcount
            db.execute(FOLLOW_RENAMES)
            return new

    def waiting(self) -> list[NewPhoto]:
        """The photos of the inbox that are neither done nor rejected."""
        with self._reading() as db:
            return [NewPhoto(**row) for row in db.execute(WAITING)]

    # What becomes of one photo.

    def start(self, key: str) -> bool:
        """False: there is nothing to do, because the photo is done already or was removed."""
        with self._writing() as db:
            return db.execute(START, (key,)).rowcount == 1

    def finish(self, key: str, facts: Facts) -> bool:
        """True once per photo, however often its job runs."""
        values = (facts.width, facts.height, facts.format, facts.colour, json.dumps(facts.exif), key)
        with self._writing() as db:
            return db.execute(FINISH, values).rowcount == 1

    def reject(self, key: str, reason: str) -> None:
        """It is no photo, and the scan need not offer it again."""
        with self._writing() as db:
            db.execute(REJECT, (reason, key))

    def forget(self, key: str) -> None:
        """Its file went away before it was done. Should it come back, it is a new photo."""
        with self._writing() as db:
            db.execute("DELETE FROM photos WHERE key = ? AND state = 'new'", (key,))

    # What the clean-up and the contact sheet need.

    def forget_lost(self) -> int:
        """Remove all photos that have no file in the inbox any more; returns how many."""
        with self._writing() as db:
            return db.execute("DELETE FROM photos WHERE sha NOT IN (SELECT sha FROM files)").rowcount

    def shas(self) -> set[str]:
        with self._reading() as db:
            return {row["sha"] for row in db.execute("SELECT sha FROM photos")}

    def done(self, *, limit: int) -> list[DonePhoto]:
        """The last ones first."""
        with self._reading() as db:
            rows = db.execute(DONE, (limit,))
            return [DonePhoto(row["path"], row["sha"], _facts(row)) for row in rows]

    def rejected(self, *, limit: int) -> list[Rejected]:
        """Those still in the inbox: a file that was seen half copied is another content when it is whole."""
        with self._reading() as db:
            return [Rejected(**row) for row in db.execute(REJECTED, (limit,))]

    def counts(self) -> Counts:
        with self._reading() as db:
            counts = {row["state"]: row["n"] for row in db.execute(COUNTS)}
        return Counts(counts.get("new", 0), counts.get("done", 0), counts.get("rejected", 0))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._database, timeout=10, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")  # waits for its turn here, not in the middle
            yield db
            db.execute("COMMIT")  # not reached after an error: closing the connection then undoes everything


def _facts(row: sqlite3.Row) -> Facts:
    return Facts(row["width"], row["height"], row["format"], row["colour"], json.loads(row["exif"]))
