"""Which version a file has, and how it gets from an older one to this one. The tables are in `scripts.py`.

A job is one narrow row that changes (`wf_job`), one that never does (`wf_body`), and, once it was settled, one for what
its runs left behind (`wf_run`): claims and settlements then rewrite few bytes, however large payloads are.

Beside its version a file says which is the oldest one whose programs can still work with it (`compatible`): while it is
migrated under them, or opened by them later, they go on when they are not older than that.
"""

from __future__ import annotations

import apsw

from workfleet.model.jobs import JobState

from .scripts import FIFTH, FIRST, FOURTH, SECOND, THIRD

VERSION = 5
"""The newest version that this program understands."""

STATES = (
    JobState.WAITING,
    JobState.PRIORITIZED,
    JobState.DELAYED,
    JobState.ACTIVE,
    JobState.WAITING_CHILDREN,
    JobState.COMPLETED,
    JobState.FAILED,
)
"""`wf_job.state` is the index in here."""
STATE_NUMBERS = {state: number for number, state in enumerate(STATES)}

_MIGRATIONS = (FIRST, SECOND, THIRD, FOURTH, FIFTH)
"""The nth brings a file from version n to n + 1."""


def stored_version(db: apsw.Connection) -> int:
    """The version of a file, 0 when it holds nothing of ours."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'wf_meta'").get:
        return 0
    version: int | None = db.execute("SELECT value FROM wf_meta WHERE key = 'schema'").get
    return version or 0


def usable(db: apsw.Connection) -> bool:
    """Whether this program can work with a file, though a newer one may have migrated it."""
    if stored_version(db) <= VERSION:
        return True
    oldest: int | None = db.execute("SELECT value FROM wf_meta WHERE key = 'compatible'").get
    return oldest is not None and oldest <= VERSION


def foreign_tables(db: apsw.Connection) -> list[str]:
    """Tables that are not ours."""
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return [str(name) for (name,) in names if not str(name).startswith("wf_")]


def migrate(db: apsw.Connection) -> None:
    """Bring a file to this version, in one transaction. Other processes may do so at the same time."""
    if stored_version(db) >= VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have done it while this one waited for the lock.
        version = stored_version(db)
        for script in _MIGRATIONS[version:]:
            for _ in db.execute(script):
                pass
        db.execute("INSERT OR REPLACE INTO wf_meta VALUES ('schema', ?)", (max(version, VERSION),))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
