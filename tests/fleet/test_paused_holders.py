"""A lock holder and its supervisor stand still for longer than the TTL, as when a machine freezes: SIGSTOP to both,
somebody else takes the lock, SIGCONT. The body hears that the lock is lost, and what it writes then is refused."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.fleet.lock_program import Ledger
from tests.fleet.running import Running, start, until
from tests.stores.redis.servers import Server
from workfleet import Client, JobType
from workfleet.model.jobs import JobState

PROGRAM = Path(__file__).with_name("lock_program.py")
TTL_S = 5


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.full)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
        return
    server = Server(tmp_path)
    server.start()
    yield server.url
    server.stop()


@pytest.fixture
async def client(store: str) -> AsyncIterator[Client]:
    async with Client(store, app="locking") as opened:
        yield opened


WRITES = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.set_busy_timeout(100)
try:
    db.execute("BEGIN IMMEDIATE")
    db.execute("ROLLBACK")
except apsw.BusyError:
    sys.exit(1)
"""


async def pause_between_writes(running: Running, store: str) -> None:
    """Stop them, at a moment at which neither is writing: a file that is locked by who stands still is nobody's."""
    while True:
        paused(running, send=signal.SIGSTOP)
        if not store.startswith("sqlite"):
            return
        asked = [sys.executable, "-c", WRITES, store.removeprefix("sqlite:///")]
        if (await asyncio.to_thread(subprocess.run, asked, check=False)).returncode == 0:
            return
        paused(running, send=signal.SIGCONT)
        await asyncio.sleep(0.1)


def paused(running: Running, *, send: signal.Signals) -> None:
    """To the supervisor first: it must not see a worker that stands still."""
    for process in (running.supervisor, *running.workers()):
        process.send_signal(send)


@pytest.mark.parametrize("body", ["awaits", pytest.param("blocks", marks=pytest.mark.full)])
async def test_a_paused_holder_is_told_and_its_fence_is_refused(
    body: str, store: str, client: Client, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path)
    ref = await client.enqueue(JobType(body, type(None), queue="work")(None))
    running = await asyncio.to_thread(start, tmp_path, program=PROGRAM, store=store)
    await asyncio.to_thread(until, (tmp_path / "held").exists, "the lock is held")
    fence = int((tmp_path / "held").read_text())
    if body == "blocks":
        await asyncio.sleep(TTL_S + 1)  # the supervisor renews it: nothing else could
    (grant,) = await client.locks.list()
    assert (grant.name, grant.fence) == ("lock:ledger", fence)
    assert not (tmp_path / "told").exists()

    await pause_between_writes(running, store)
    async with client.locks.lock("ledger", ttl="1m", wait="1m") as ours:
        assert ours.fence > fence
        assert ledger.write(ours.fence, "successor")
        paused(running, send=signal.SIGCONT)
        await asyncio.to_thread(until, (tmp_path / "late write").exists, "the holder is told")
        told = (tmp_path / "told").read_text()
        assert told == {"awaits": "cancelled", "blocks": "check"}[body]
        assert (tmp_path / "late write").read_text() == "False"
        await asyncio.to_thread(until, lambda: "lock:ledger was lost while" in running.log(), "the loss is logged")
        record = await ref.record()
        while record.state is not JobState.FAILED:
            await asyncio.sleep(0.05)
            record = await ref.record()
        assert record.failure is not None
        assert record.failure.type.endswith("LockLost")
        assert await client.locks.is_locked("ledger") == "yes"  # the loser has not released what is ours
        ours.check()
    assert ledger.written() == ["holder", "successor"]
