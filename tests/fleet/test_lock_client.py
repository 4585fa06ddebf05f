"""Locks in a Redis client of their own, jobs in a file: renewed there while the loop is blocked, freed after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.fleet.running import kill, start, until
from tests.stores.redis.servers import Server
from workfleet import Client, JobType
from workfleet.clock import SystemClock
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store

PROGRAM = Path(__file__).with_name("lock_program.py")


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Server(tmp_path_factory.mktemp("r"))
    server.start()
    yield f"redis://127.0.0.1:{server.port}/5"
    server.stop()


@pytest.fixture
async def locks(url: str) -> AsyncIterator[Store]:
    opened = await open_store(url, app="locking", clock=SystemClock(), create=False)
    yield opened
    await opened.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with Client(f"sqlite:///{tmp_path}/store.db", app="locking") as opened:
        yield opened


def held(folder: Path) -> int:
    """The fence under which the lock is held, by what the program noted."""
    return int((folder / "held").read_text()) if (folder / "held").exists() else 0


@pytest.mark.full
async def test_the_supervisor_renews_them_there(
    url: str, locks: Store, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_LOCKS", url)
    await client.enqueue(JobType("blocks", type(None), queue="work")(None))
    await asyncio.to_thread(start, tmp_path, program=PROGRAM, store=f"sqlite:///{tmp_path}/store.db")
    await asyncio.to_thread(until, lambda: held(tmp_path), "the lock is held")
    await asyncio.sleep(6)  # more than its TTL
    (grant,) = await locks.locks.held()
    assert (grant.name, grant.fence) == ("lock:ledger", held(tmp_path))
    assert await client.locks.list() == []
    assert not (tmp_path / "told").exists()


@pytest.mark.full
async def test_after_a_kill_they_are_freed_there(
    url: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed worker's by its supervisor; after a kill of both by the next worker of this machine."""
    monkeypatch.setenv("TEST_LOCKS", url)
    monkeypatch.setenv("TEST_TTL", "1h")
    store = f"sqlite:///{tmp_path}/store.db"
    await client.enqueue(JobType("awaits", type(None), queue="work")(None))
    running = await asyncio.to_thread(start, tmp_path, program=PROGRAM, store=store)
    await asyncio.to_thread(until, lambda: held(tmp_path), "the lock is held")
    first = held(tmp_path)
    kill(running.workers()[0])
    await asyncio.to_thread(until, lambda: held(tmp_path) > first, "the job runs again and has its lock")
    second = held(tmp_path)
    for process in running.family():
        kill(process)
    running.wait()
    await asyncio.to_thread(start, tmp_path, program=PROGRAM, store=store)
    await asyncio.to_thread(until, lambda: held(tmp_path) > second, "the next worker has it")
