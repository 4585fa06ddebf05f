"""Older and newer schemas: a file of version 1 keeps all it holds, and a program notices when its file was migrated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import Enqueued, JobRecord, JobState
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.ports.jobs import ClaimRequest, JobQuery, TakeOver, Want
from workfleet.stores.sqlite.schema import VERSION
from workfleet.stores.sqlite.scripts import FIRST
from workfleet.stores.sqlite.store import SqliteStore
from workfleet.testing.contracts.harness import inconsistencies

Outside = Callable[[str], object]

_OLD_ROWS = """
INSERT INTO wf_meta VALUES ('schema', 1);
UPDATE wf_meta SET value = 2 WHERE key = 'claim';
INSERT INTO wf_queue VALUES (1, 'shop', 'q', 0);
INSERT INTO wf_claim VALUES (1, 'shop', 't1', 'w1', 5), (2, 'shop', 't2', 'w2', 6);
INSERT INTO wf_job VALUES
  (1, 'shop', 'ready', 1, 0, 0, 0, 0, 5, 5, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, 'k1'),
  (2, 'shop', 'urgent', 1, 1, 0, 7, 0, 5, 5, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL),
  (3, 'shop', 'later', 1, 2, 0, 0, 0, 5, 90000000000000, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL),
  (4, 'shop', 'runs', 1, 3, 0, 0, 0, 5, 5, 6, NULL, 0, 0, 0, 2, 90000000000000, NULL, NULL, 'k2'),
  (5, 'shop', 'done', 1, 5, 0, 0, 0, 5, 5, 6, 7, 1, 0, 0, 1, NULL, 1, NULL, 'k3'),
  (6, 'shop', 'broken', 1, 6, 0, 0, 0, 5, 5, 6, 7, 3, 0, 0, 1, NULL, 1, NULL, NULL);
INSERT INTO wf_body VALUES
  (1, 'work', CAST('1' AS BLOB), CAST('{"tags":["t"]}' AS BLOB), 'c1'), (2, 'work', CAST('2' AS BLOB), NULL, NULL),
  (3, 'work', CAST('3' AS BLOB), NULL, NULL), (4, 'work', CAST('4' AS BLOB), NULL, NULL),
  (5, 'work', CAST('5' AS BLOB), CAST('{"tags":["t"]}' AS BLOB), NULL),
  (6, 'work', CAST('6' AS BLOB), CAST('{' AS BLOB), NULL);
INSERT INTO wf_run VALUES
  (5, 'completed', CAST('"r"' AS BLOB), NULL, 1, '{"number":1,"outcome":"completed","started_ms":6,"ended_ms":7}'),
  (6, 'failed', NULL, CAST('{"code":"raised","message":"Boom"}' AS BLOB), 0, NULL);
INSERT INTO wf_worker VALUES ('shop', 'w1', 'h', 'b', 7, '1', 'q', '', 5, 5);
INSERT INTO wf_lock VALUES ('shop', 'l', 'o', 99, 90000000000000);
"""


def make_old(path: Path) -> None:
    """A file as version 1 made it, with a job in each state."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    for script in (FIRST, _OLD_ROWS):
        for _ in db.execute(script):
            pass
    db.close()


async def opened(path: Path) -> SqliteStore:
    return await SqliteStore.open(path, app="shop", clock=SystemClock(), create=False)


async def add(store: SqliteStore, job_id: str) -> None:
    await store.jobs.enqueue([JobRecord(id=job_id, queue="q", name="work")])


def ids(records: list[JobRecord]) -> list[str]:
    return [record.id for record in records]


async def test_a_file_of_version_1_keeps_its_jobs(path: Path, outside: Outside) -> None:
    make_old(path)
    store = await opened(path)
    assert outside("SELECT value FROM wf_meta WHERE key = 'schema'") == VERSION
    ready, done, broken = await store.jobs.get(["ready", "done", "broken"])
    assert (ready and ready.tags, ready and ready.unique_key) == (("t",), "k1")
    assert (done and done.result, done and done.history[0].ended_ms) == (b'"r"', 7)
    assert (broken and broken.outcome) == "undecodable"
    counts = (await store.jobs.counts())["q"]
    assert (counts.waiting, counts.prioritized, counts.delayed, counts.active) == (1, 1, 1, 1)
    assert (counts.completed, counts.failed, counts.oldest_ready_ms) == (1, 1, 5)
    assert ids(await store.jobs.find(JobQuery(tag="t"))) == ["ready", "done"]
    assert ids(await store.jobs.find(JobQuery(text="bOOm"))) == ["broken"]
    assert [worker.id for worker in await store.fleet.workers()] == ["w1"]
    assert [lock.fence for lock in await store.locks.held()] == [99]
    assert await inconsistencies(store) == []
    row = LedgerRow(id="1", at_ms=await store.now_ms(), schedule="nightly", outcome="completed")
    await store.ledger.record([row], LedgerKeep(age_ms=86_400_000, count=9))
    assert await store.ledger.history("nightly") == [row]
    # Keys are held as before, by waiting and active jobs, and no more by finished ones.
    keyed = [JobRecord(id=f"new-{key}", queue="q", name="work", unique_key=key) for key in ("k1", "k2", "k3")]
    assert await store.jobs.enqueue(keyed) == [
        Enqueued("ready", created=False),
        Enqueued("runs", created=False),
        Enqueued("new-k3", created=True),
    ]
    (taken,) = await store.jobs.take_over(TakeOver("reaper", "t9", 1_000, workers=("w2",)))
    assert (taken.id, taken.worker) == ("runs", "w2")
    assert ids(await store.jobs.claim(ClaimRequest("w", "t", 1_000, (Want("q", 9),)))) == ["ready", "new-k3", "urgent"]
    await store.close()


async def test_eight_that_migrate_at_once(path: Path) -> None:
    make_old(path)
    stores = await asyncio.gather(*(opened(path) for _ in range(8)))
    for number, store in enumerate(stores):
        await add(store, f"j{number}")
    assert (await stores[0].jobs.counts())["q"].waiting == 9
    for store in stores:
        await store.close()


async def test_a_breaking_migration_is_noticed_by_who_runs(sqlite: SqliteStore, outside: Outside) -> None:
    await add(sqlite, "a")
    await sqlite.jobs.get(["a"])
    newer = VERSION + 1
    outside(
        "BEGIN IMMEDIATE; ALTER TABLE wf_job ADD COLUMN colour TEXT;"
        f"UPDATE wf_meta SET value = {newer} WHERE key IN ('schema', 'compatible'); COMMIT"
    )
    for _ in range(2):
        errors = await asyncio.gather(add(sqlite, "b"), sqlite.jobs.get(["a"]), sqlite.check(), return_exceptions=True)
        assert [type(error) for error in errors] == [StoreUnavailable] * 3
        for error in errors:
            assert f"newer workfleet has migrated it under this process (schema {newer}" in str(error)
            assert "Restart" in str(error)
    assert outside("SELECT count(*) FROM wf_job") == 1


async def test_with_an_additive_migration_who_runs_goes_on(sqlite: SqliteStore, path: Path, outside: Outside) -> None:
    await add(sqlite, "a")
    outside(
        "BEGIN IMMEDIATE; ALTER TABLE wf_job ADD COLUMN colour TEXT NOT NULL DEFAULT 'red';"
        f"UPDATE wf_meta SET value = {VERSION + 1} WHERE key = 'schema'; COMMIT"
    )
    await add(sqlite, "b")
    # One that comes later goes on, too, and leaves the version alone.
    later = await opened(path)
    assert ids(await later.jobs.claim(ClaimRequest("w", "t", 1_000, (Want("q", 9),)))) == ["a", "b"]
    assert [record and record.state for record in await sqlite.jobs.get(["a"])] == [JobState.ACTIVE]
    await later.close()
    assert outside("SELECT value FROM wf_meta WHERE key = 'schema'") == VERSION + 1


async def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(path)
    with monkeypatch.context() as patch:
        broken = "ALTER TABLE wf_job ADD COLUMN grp TEXT; NONSENSE"
        patch.setattr("workfleet.stores.sqlite.schema._MIGRATIONS", (FIRST, broken))
        with pytest.raises(StoreUnavailable):
            await opened(path)
    store = await opened(path)
    assert (await store.jobs.counts())["q"].active == 1
    await store.close()
