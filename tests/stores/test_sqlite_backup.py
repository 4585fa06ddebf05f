"""A copy of a store in use: complete, of one instant, and never in the way."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import apsw
import pytest

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobQuery
from workfleet.stores.sqlite import backup
from workfleet.stores.sqlite.store import SqliteStore
from workfleet.testing.contracts.harness import inconsistencies

from .child import BATCH
from .conftest import Start
from .test_sqlite_processes import answer, answers


async def add(store: SqliteStore, job_id: str, payload: bytes = b"null") -> None:
    await store.jobs.enqueue([JobRecord(id=job_id, queue="q", name="work", payload=payload)])


async def stored(path: Path) -> list[JobRecord]:
    """All jobs of a copy, which is consistent in itself."""
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=False)
    try:
        assert await inconsistencies(store) == []
        return await store.jobs.find(JobQuery(limit=1_000_000))
    finally:
        await store.close()


async def test_a_copy_while_another_process_writes(start: Start, sqlite: SqliteStore, path: Path) -> None:
    copy = path.with_name("copy.db")
    child = await start("feed", "fed")
    acknowledged = 0
    for _ in range(5):
        while acknowledged % 10 != 9 or acknowledged == 0:
            acknowledged = await answer(child)  # type: ignore[assignment]
        await asyncio.to_thread(backup, path, copy)
        numbers = {int(job.id.split("-")[1]) for job in await stored(copy)}
        # Whole batches, all that had been acknowledged before, and no gap.
        assert len(await stored(copy)) == len(numbers) * BATCH
        assert numbers == set(range(len(numbers)))
        assert len(numbers) > acknowledged
        acknowledged = await answer(child)  # type: ignore[assignment]
    child.kill()
    await answers(child)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not [file for file in path.parent.iterdir() if "part" in file.name]


async def test_what_is_not_in_the_file_yet_is_in_the_copy(sqlite: SqliteStore, path: Path) -> None:
    await add(sqlite, "a")
    # It is in the log only.
    assert path.with_name("store.db-wal").stat().st_size > 0
    backup(path, path.with_name("copy.db"))
    assert [job.id for job in await stored(path.with_name("copy.db"))] == ["a"]
    await add(sqlite, "b")
    backup(path, path.with_name("copy.db"))
    assert [job.id for job in await stored(path.with_name("copy.db"))] == ["b", "a"]


async def test_the_store_goes_on_in_a_process_that_copied_it(sqlite: SqliteStore, path: Path, start: Start) -> None:
    await add(sqlite, "a")
    backup(path, path.with_name("copy.db"))
    child = await start("feed", "fed")
    await answer(child)
    for number in range(50):
        await add(sqlite, f"b{number}")
    child.kill()
    await answers(child)
    assert await inconsistencies(sqlite) == []
    assert None not in await sqlite.jobs.get(["a", *(f"b{number}" for number in range(50)), "fed-0-0"])


async def test_a_store_in_use_is_not_overwritten(sqlite: SqliteStore, path: Path) -> None:
    other = await SqliteStore.open(path.with_name("other.db"), app="shop", clock=SystemClock(), create=True)
    await add(other, "mine")
    for to in (path, path.with_name("other.db")):
        with pytest.raises(StoreUnavailable, match="in use"):
            backup(path, to)
    assert await other.jobs.get(["mine"]) != [None]
    await other.close()


async def test_what_cannot_be_copied_or_written(sqlite: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no such file"):
        backup(path.with_name("none.db"), path.with_name("copy.db"))
    with pytest.raises(StoreUnavailable, match="cannot be"):
        backup(path, path.parent / "none" / "copy.db")
    path.with_name("text").write_text("remember the milk\n" * 100)
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        backup(path.with_name("text"), path.with_name("copy.db"))
    assert not [file for file in path.parent.iterdir() if file.name.startswith("copy")]


async def test_a_copy_for_which_there_is_no_space_leaves_the_last_one(
    sqlite: SqliteStore, path: Path, disk: Path
) -> None:
    await add(sqlite, "a")
    backup(path, disk / "copy.db")
    await add(sqlite, "big", b'"' + b"x" * 3_000_000 + b'"')
    with pytest.raises(StoreUnavailable, match=r"no space left|cannot be"):
        backup(path, disk / "copy.db")
    assert os.listdir(disk) == ["copy.db"]
    db = apsw.Connection(str(disk / "copy.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert db.execute("SELECT id FROM wf_job").get == "a"
    db.close()
