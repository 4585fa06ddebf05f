"""The tables and what they mean, as the scripts that made them: the nth brings a file from version n - 1 to n.

A script that was released is never changed.
"""

from __future__ import annotations

FIRST = """
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

SECOND = """
ALTER TABLE wf_queue ADD COLUMN said INTEGER NOT NULL DEFAULT 0;     -- 1: somebody paused or limited it once
ALTER TABLE wf_queue ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wf_queue ADD COLUMN limits BLOB;                          -- JSON; NULL: none
ALTER TABLE wf_queue ADD COLUMN turn_grp TEXT;                        -- the group that was served last, NULL: none yet
ALTER TABLE wf_queue ADD COLUMN turn_taken INTEGER NOT NULL DEFAULT 0; -- how many it got in that turn
CREATE INDEX wf_queue_limited ON wf_queue (queue) WHERE limits IS NOT NULL;

ALTER TABLE wf_job ADD COLUMN grp TEXT NOT NULL DEFAULT '';
ALTER TABLE wf_job ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;      -- 1: delayed until its key's claimed job ends
ALTER TABLE wf_job ADD COLUMN suspicions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wf_job ADD COLUMN cancel_asked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wf_job ADD COLUMN key_until INTEGER NOT NULL DEFAULT 0;   -- its key is held until it has 0 finished,
                                                                      -- 1 started; 2: as long as wf_hold says;
                                                                      -- + 4: parked while its key has a claimed job
ALTER TABLE wf_job ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;     -- 1: claimed of a queue that has limits
ALTER TABLE wf_job ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;        -- its place among what its claim was given
ALTER TABLE wf_job ADD COLUMN keep TEXT NOT NULL DEFAULT '';          -- its own retention: "age_ms/count|age_ms/count",
                                                                      -- when completed, when failed; "": none
ALTER TABLE wf_job ADD COLUMN kept TEXT GENERATED ALWAYS AS (CASE     -- that of the state in which it has finished
    WHEN keep = '' OR state < 5 THEN ''
    WHEN state = 5 THEN substr(keep, 1, instr(keep, '|') - 1)
    ELSE substr(keep, instr(keep, '|') + 1)
  END) VIRTUAL;

DROP INDEX wf_job_unique;
CREATE UNIQUE INDEX wf_job_unique ON wf_job (app, unique_key)
  WHERE unique_key IS NOT NULL AND state < 5 AND (key_until & 3 = 0 OR (key_until & 3 = 1 AND started_ms IS NULL));
CREATE INDEX wf_job_claimed_key ON wf_job (app, unique_key)
  WHERE unique_key IS NOT NULL AND state < 5 AND key_until > 0 AND started_ms IS NOT NULL;
CREATE INDEX wf_job_parked ON wf_job (app, unique_key, queue, housekeeping) WHERE parked = 1;
DROP INDEX wf_job_ready;
CREATE INDEX wf_job_ready ON wf_job (queue, grp, lifo, priority, due_ms, seq, housekeeping, state) WHERE state < 2;
DROP INDEX wf_job_due;
CREATE INDEX wf_job_due ON wf_job (queue, due_ms, seq, housekeeping, started_ms) WHERE state = 2 AND parked = 0;
DROP INDEX wf_job_finished;
CREATE INDEX wf_job_finished ON wf_job (queue, state, kept, housekeeping, finished_ms) WHERE state > 4;
DROP INDEX wf_job_created;
CREATE INDEX wf_job_created ON wf_job (app, created_ms, id, queue);
CREATE INDEX wf_job_counted ON wf_job (queue, grp) WHERE counted = 1 AND state = 3;
CREATE INDEX wf_job_of_group ON wf_job (app, grp, created_ms, id) WHERE grp != '';

CREATE TABLE wf_hold (               -- unique keys that are held for a time, whatever becomes of the job
  app TEXT NOT NULL,
  unique_key TEXT NOT NULL,
  id TEXT NOT NULL,                  -- the job, which may be gone
  expires_ms INTEGER NOT NULL,
  PRIMARY KEY (app, unique_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_start (              -- what was handed out within the window of a rate
  queue INTEGER NOT NULL,            -- wf_queue
  grp TEXT NOT NULL,                 -- '': of the whole queue, by its rate; else of that group, by the group's
  at_ms INTEGER NOT NULL,
  starts INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,         -- the end of its window
  PRIMARY KEY (queue, grp, at_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_replaced (           -- newcomers whose payload a job with their unique key took, to know a repeat
  app TEXT NOT NULL,
  id TEXT NOT NULL,
  seq INTEGER NOT NULL,              -- wf_job
  call TEXT,
  PRIMARY KEY (app, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX wf_replaced_seq ON wf_replaced (seq);

CREATE TABLE wf_tag (
  tag TEXT NOT NULL,
  seq INTEGER NOT NULL,              -- wf_job
  PRIMARY KEY (tag, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX wf_tag_seq ON wf_tag (seq);
INSERT OR IGNORE INTO wf_tag
  SELECT t.value, b.seq
  FROM wf_body b, json_each(iif(json_valid(CAST(b.spec AS TEXT)), CAST(b.spec AS TEXT), '{}'), '$.tags') t
  WHERE b.spec IS NOT NULL AND t.type = 'text';

ALTER TABLE wf_worker ADD COLUMN instruction TEXT;
ALTER TABLE wf_worker ADD COLUMN active INTEGER NOT NULL DEFAULT 0;

INSERT INTO wf_meta VALUES ('compatible', 2);
"""
"""Its indexes replace those of the first, so no program that knows only version 1 can work with it."""

THIRD = """
CREATE TABLE wf_ledger (             -- what became of the runs of schedules; needs neither the job nor the schedule
  app TEXT NOT NULL,
  schedule TEXT NOT NULL,
  at_ms INTEGER NOT NULL,            -- the end of the attempt, or when it was decided that there is none
  id TEXT NOT NULL,
  outcome TEXT NOT NULL,
  slot_ms INTEGER,
  job_id TEXT,
  attempt INTEGER,                   -- NULL: there was no run
  started_ms INTEGER,
  worker TEXT NOT NULL,
  error TEXT,
  slots INTEGER NOT NULL,            -- how many slots the row is about
  PRIMARY KEY (app, schedule, at_ms, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX wf_ledger_at ON wf_ledger (app, at_ms);
"""
"""Only adds to the second, so programs that know version 2 go on with it."""

FOURTH = """
ALTER TABLE wf_schedule ADD COLUMN held_slot_ms INTEGER;      -- the slot that is held back, and until when: for its
ALTER TABLE wf_schedule ADD COLUMN held_until_ms INTEGER;     -- jitter, or while a process has it
ALTER TABLE wf_schedule ADD COLUMN fires_ms INTEGER GENERATED ALWAYS AS (  -- when it is to be handed out, while live
    CASE WHEN enabled = 0 OR paused != 0 OR orphaned != 0 THEN NULL
      WHEN held_slot_ms = next_due_ms THEN max(held_until_ms, next_due_ms)
      ELSE next_due_ms END) VIRTUAL;
ALTER TABLE wf_schedule ADD COLUMN account BLOB;         -- JSON: what became of slots that were not simply fired
CREATE INDEX wf_schedule_fires ON wf_schedule (app, fires_ms, name) WHERE fires_ms IS NOT NULL;
"""
"""Computed from what older programs write, so those that know version 2 go on with it."""

FIFTH = """
ALTER TABLE wf_worker ADD COLUMN pools BLOB;              -- JSON: its pools as it said at its last sign of life
ALTER TABLE wf_worker ADD COLUMN orders BLOB;             -- JSON: what it is to do with them; NULL: nothing
ALTER TABLE wf_worker ADD COLUMN handlers BLOB;           -- JSON: the names that it knows, by queue; NULL: not said
"""
"""Only adds, so programs that know version 2 go on with it: their workers say nothing of pools and names, and hear no
orders."""
