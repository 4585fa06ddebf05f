"""What can be wrong with the file: each is a clear `StoreUnavailable`, and the store goes on when it ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobRecord
from workfleet.stores.sqlite import connect
from workfleet.stores.sqlite.schema import VERSION
from workfleet.stores.sqlite.store import SqliteStore

Outside = Callable[[str], object]


async def open_store(path: Path, *, create: bool = True) -> SqliteStore:
    return await SqliteStore.open(path, app="shop", clock=SystemClock(), create=create)


async def refused(path: Path, *, create: bool = True) -> str:
    """Why a file is not opened."""
    with pytest.raises(StoreUnavailable) as caught:
        await open_store(path, create=create)
    assert str(path) in str(caught.value)
    return str(caught.value)


async def add(store: SqliteStore, job_id: str, payload: bytes = b"null") -> None:
    await store.jobs.enqueue([JobRecord(id=job_id, queue="q", name="work", payload=payload)])


async def failing(store: SqliteStore) -> str:
    """Why nothing works now: neither a write, nor a read, nor the check."""
    errors = await asyncio.gather(add(store, "x"), store.jobs.get(["x"]), store.check(), return_exceptions=True)
    assert [type(error) for error in errors] == [StoreUnavailable] * 3
    return str(errors[0])


async def test_a_file_that_is_not_there_is_not_made_unless_told(path: Path) -> None:
    message = await refused(path, create=False)
    assert "there is no such file" in message
    assert "workfleet run" in message
    assert not path.exists()


async def test_makes_the_folder_and_a_file_for_this_user_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / ".workfleet" / "shop.db"
    store = await open_store(path)
    assert store.url == f"sqlite://{path}"
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    await store.close()
    assert [file.name for file in path.parent.iterdir()] == ["shop.db"]


async def test_the_settings_that_make_it_durable(sqlite: SqliteStore) -> None:
    def pragmas(step: object) -> list[object]:
        return [step.db.pragma(name) for name in ("journal_mode", "synchronous")]  # type: ignore[attr-defined]

    assert await sqlite._lanes.write(pragmas) == ["wal", 2]


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be" in await refused(tmp_path / "file" / "store.db")


async def test_a_folder_in_its_place(tmp_path: Path) -> None:
    assert "it is a folder" in await refused(tmp_path)


async def test_a_newer_schema_is_refused_and_left_alone(sqlite: SqliteStore, path: Path, outside: Outside) -> None:
    outside(f"UPDATE wf_meta SET value = {VERSION + 1} WHERE key IN ('schema', 'compatible')")
    message = await refused(path)
    assert f"schema {VERSION + 1}, this one knows {VERSION}" in message
    assert "Upgrade" in message
    assert outside("SELECT value FROM wf_meta WHERE key = 'schema'") == VERSION + 1


async def test_an_empty_file_is_taken(path: Path) -> None:
    path.touch()
    store = await open_store(path, create=False)
    await add(store, "a")
    await store.close()


async def test_somebody_elses_database_is_refused_and_left_alone(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE photos (id)")
    db.close()
    before = path.read_bytes()
    message = await refused(path)
    assert "tables photos" in message
    assert "file of its own" in message
    assert path.read_bytes() == before


async def test_what_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("remember the milk\n" * 100)
    assert "not a SQLite database" in await refused(path)
    assert path.read_text().startswith("remember")


async def test_a_damaged_file(path: Path) -> None:
    store = await open_store(path)
    for number in range(50):
        await add(store, f"j{number}", b'"' + b"x" * 2_000 + b'"')
    await store.close()
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(os.urandom(path.stat().st_size - 8_192))
    message = await refused(path)
    assert "damaged" in message
    assert "backup" in message


async def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "filesystem", lambda _: "nfs4")
    message = await refused(path)
    assert "network file system (nfs4)" in message
    assert not path.exists()


def test_which_file_system_holds_a_path(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 0:50 / /mnt/my\\040sh\\303\\244re rw shared:7 - nfs4 server:/x rw\n"
        "3 1 0:51 / /over rw - ext4 /dev/sdb rw\n"
        "4 1 0:52 / /over rw - cifs //server/y rw\n"
    )
    where = {path: connect.filesystem(Path(path), mounts) for path in ("/mnt/my shäre/a", "/mnt/my", "/over/b", "/")}
    assert where == {"/mnt/my shäre/a": "nfs4", "/mnt/my": "ext4", "/over/b": "cifs", "/": "ext4"}
    assert connect.filesystem(Path("/"), tmp_path / "none") is None


async def test_deleted_while_in_use_and_put_back(sqlite: SqliteStore, path: Path) -> None:
    await add(sqlite, "a")
    assert await sqlite.jobs.get(["a"]) != [None]
    aside = path.with_name("aside")
    path.rename(aside)
    assert "deleted or replaced" in await failing(sqlite)
    assert "no such file" in await failing(sqlite)
    assert not path.exists()
    aside.rename(path)
    await add(sqlite, "b")
    assert [job and job.id for job in await sqlite.jobs.get(["a", "b"])] == ["a", "b"]


async def test_replaced_while_in_use(sqlite: SqliteStore, path: Path) -> None:
    await add(sqlite, "a")
    for file in path.parent.glob("store.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    other = await open_store(path)
    await add(other, "b")
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        await add(sqlite, "x")
    await sqlite.check()
    assert [job and job.id for job in await sqlite.jobs.get(["a", "b", "x"])] == [None, "b", None]
    await other.close()


async def test_locked_for_a_while_is_waited_for(sqlite: SqliteStore, outside: Outside) -> None:
    outside("BEGIN IMMEDIATE")
    adding = asyncio.create_task(add(sqlite, "a"))
    # Reading goes on meanwhile.
    assert await sqlite.jobs.get(["a"]) == [None]
    assert not adding.done()
    outside("COMMIT")
    await adding
    assert await sqlite.jobs.get(["a"]) != [None]


async def test_a_long_reader_holds_nothing_up_and_the_log_is_used_again_after_it(
    sqlite: SqliteStore, path: Path, outside: Outside
) -> None:
    log = path.with_name("store.db-wal")
    await add(sqlite, "before")
    outside("BEGIN")
    assert outside("SELECT count(*) FROM wf_job") == 1
    for number in range(30):
        await add(sqlite, f"a{number}", b"1" * 1_000_000)
    # The reader still sees its instant, everybody else sees the new ones, and nothing of it could leave the log.
    assert outside("SELECT count(*) FROM wf_job") == 1
    assert (await sqlite.jobs.counts())["q"].waiting == 31
    with_reader = log.stat().st_size
    assert with_reader > 30_000_000
    outside("COMMIT")
    for number in range(60):
        await add(sqlite, f"b{number}", b"1" * 1_000_000)
    assert log.stat().st_size < with_reader + 30_000_000


async def test_locked_for_too_long(sqlite: SqliteStore, outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_TRIES", 3)
    outside("BEGIN IMMEDIATE")
    errors = await asyncio.gather(*(add(sqlite, name) for name in "abc"), return_exceptions=True)
    assert [type(error) for error in errors] == [StoreUnavailable] * 3
    assert "locked" in str(errors[0])
    outside("ROLLBACK")
    await add(sqlite, "a")


async def test_a_full_disk(disk: Path) -> None:
    store = await open_store(disk / "store.db")
    await add(store, "a")
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    errors = await asyncio.gather(add(store, "big", b"1" * 1_000_000), add(store, "small"), return_exceptions=True)
    assert "no space left" in str(errors[0])
    assert "Free some space" in str(errors[0])
    # What was too large has not taken with it what came at the same time.
    assert errors[1] is None
    assert [job and job.id for job in await store.jobs.get(["a", "big", "small"])] == ["a", None, "small"]
    ballast.unlink()
    await add(store, "big", b"1" * 400_000)
    await store.close()


async def test_a_limit_on_pages_is_a_full_disk(sqlite: SqliteStore) -> None:
    await sqlite._lanes.write(lambda step: step.db.pragma("max_page_count", step.db.pragma("page_count") + 20))
    with pytest.raises(StoreUnavailable, match="no space left"):
        await add(sqlite, "big", b"1" * 1_000_000)
    await add(sqlite, "small")
    await sqlite._lanes.write(lambda step: step.db.pragma("max_page_count", 4_000_000_000))
    await add(sqlite, "big", b"1" * 1_000_000)


async def test_a_read_only_file_system(disk: Path) -> None:
    path = disk / "store.db"
    store = await open_store(path)
    await add(store, "a")
    await store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    message = await refused(path)
    assert "cannot be" in message
    assert "folder" in message
    assert "cannot be" in await refused(disk / "new" / "other.db")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    await (await open_store(path)).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root; test_a_read_only_file_system is for it")
async def test_a_read_only_folder_and_file(path: Path) -> None:
    await (await open_store(path)).close()
    path.parent.chmod(0o500)
    assert "folder" in await refused(path)
    path.parent.chmod(0o700)
    path.chmod(0o400)
    assert "cannot be" in await refused(path)


async def test_closed_is_closed(sqlite: SqliteStore) -> None:
    await sqlite.jobs.get(["a"])
    await sqlite.close()
    assert "it is closed" in await failing(sqlite)
    await sqlite.close()
