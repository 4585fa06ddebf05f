"""The tables, what they mean, and how a file gets from an older version to this one.

A job is one narrow row that changes (`wf_job`), one that never does (`wf_body`), and, once it was settled, one for what
its runs left behind (`wf_run`): claims and settlements then rewrite few bytes, however large payloads are. Changes
within a major version only add.
"""

from __future__ import annotations

import apsw

from workfleet.model.jobs import JobState

VERSION = 1
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

_FIRST = """
CREATE TABLE wf_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE wf_queue (
  queue INTEGER PRIMARY KEY,
  app TEXT NOT NULL,
  name TEXT NOT NULL,
  housekeeping INTEGER NOT NULL,     -- 0: has had the users' jobs, 1: only the product's own, 2: none yet
  UNIQUE (app, name)
) STRICT;

CREATE TABLE wf_job (
  seq INTEGER PRIMARY KEY,           -- the order of enqueueing
  app TEXT NOT NULL,
  id TEXT NOT NULL,
  queue INTEGER NOT NULL,            -- wf_queue
  state INTEGER NOT NULL,            -- 0 waiting, 1 prioritized, 2 delayed, 3 active,
                                     -- 4 waiting-children, 5 completed, 6 failed
  lifo INTEGER NOT NULL,             -- 1: last in first out; never with a priority
  priority INTEGER NOT NULL,
  housekeeping INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  due_ms INTEGER NOT NULL,           -- when it becomes or became ready: its place in the order
  started_ms INTEGER,
  finished_ms INTEGER,
  attempts_made INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  deferrals INTEGER NOT NULL DEFAULT 0,
  claim INTEGER,                     -- wf_claim, while active
  lease_until_ms INTEGER,
  settled INTEGER,                   -- the claim that settled it last, to know a repeat
  ran_by TEXT,                       -- the worker that ran it, where the claim is of who took it over
  unique_key TEXT
) STRICT;
CREATE UNIQUE INDEX wf_job_id ON wf_job (app, id);
CREATE UNIQUE INDEX wf_job_unique ON wf_job (app, unique_key) WHERE unique_key IS NOT NULL AND state < 5;
CREATE INDEX wf_job_ready ON wf_job (queue, lifo, priority, due_ms, seq, housekeeping, state) WHERE state < 2;
CREATE INDEX wf_job_due ON wf_job (queue, due_ms, seq, housekeeping, started_ms) WHERE state = 2;
CREATE INDEX wf_job_active ON wf_job (claim) WHERE state = 3;
CREATE INDEX wf_job_parent ON wf_job (queue, housekeeping) WHERE state = 4;
CREATE INDEX wf_job_finished ON wf_job (queue, state, housekeeping, finished_ms) WHERE state > 4;
CREATE INDEX wf_job_created ON wf_job (app, created_ms, id);

CREATE TABLE wf_body (
  seq INTEGER PRIMARY KEY,           -- wf_job
  name TEXT NOT NULL,
  payload BLOB NOT NULL,             -- JSON
  spec BLOB,                         -- JSON: whatever else was said at enqueue
  call TEXT                          -- the call that enqueued it, to know a repeat
) STRICT;

CREATE TABLE wf_run (
  seq INTEGER PRIMARY KEY,           -- wf_job
  outcome TEXT,
  result BLOB,                       -- JSON
  failure BLOB,                      -- JSON
  attempts INTEGER NOT NULL,         -- how many the history holds
  history TEXT                       -- JSON, one attempt a line
) STRICT;

CREATE TABLE wf_report (
  seq INTEGER PRIMARY KEY,           -- wf_job
  progress BLOB,                     -- JSON
  call TEXT                          -- the last report's call, to know a repeat
) STRICT;

CREATE TABLE wf_log (
  seq INTEGER NOT NULL,              -- wf_job
  line_no INTEGER NOT NULL,
  line TEXT NOT NULL,
  PRIMARY KEY (seq, line_no)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_claim (
  claim INTEGER PRIMARY KEY,         -- from wf_meta, never given twice
  app TEXT NOT NULL,
  token TEXT NOT NULL,
  worker TEXT NOT NULL,
  granted_ms INTEGER NOT NULL,
  UNIQUE (app, token)
) STRICT;

CREATE TABLE wf_schedule (
  app TEXT NOT NULL,
  name TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  definition BLOB NOT NULL,          -- JSON
  enabled INTEGER NOT NULL,
  from_code INTEGER NOT NULL,
  orphaned INTEGER NOT NULL DEFAULT 0,
  paused INTEGER NOT NULL DEFAULT 0,
  next_due_ms INTEGER,
  last_slot_ms INTEGER,
  last_fired_ms INTEGER,
  last_job_id TEXT,
  last_outcome TEXT,
  fired INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  missed_count INTEGER NOT NULL DEFAULT 0,
  last_call TEXT,                    -- the last fire's call and slot, and its answer, to know a repeat
  last_call_slot_ms INTEGER,
  last_answer BLOB,                  -- JSON
  PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_lock (
  app TEXT NOT NULL,
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  fence INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_key (
  app TEXT NOT NULL,
  key TEXT NOT NULL,
  value BLOB NOT NULL,
  expires_ms INTEGER NOT NULL,
  PRIMARY KEY (app, key)
) STRICT;
CREATE INDEX wf_key_expires ON wf_key (expires_ms);

CREATE TABLE wf_worker (
  app TEXT NOT NULL,
  id TEXT NOT NULL,
  host TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started TEXT NOT NULL,
  queues TEXT NOT NULL,              -- one a line
  release TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  seen_ms INTEGER NOT NULL,
  PRIMARY KEY (app, id)
) STRICT, WITHOUT ROWID;

INSERT INTO wf_meta VALUES ('claim', 0), ('fence', 0), ('checked_ms', 0);
"""

_MIGRATIONS = (_FIRST,)
"""The nth brings a file from version n to n + 1."""


def stored_version(db: apsw.Connection) -> int:
    """The version of a file, 0 when it holds nothing of ours."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'wf_meta'").get:
        return 0
    version: int | None = db.execute("SELECT value FROM wf_meta WHERE key = 'schema'").get
    return version or 0


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
