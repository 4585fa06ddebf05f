"""A real `workfleet run` on queues that Node has too, by `WORKER_STORE` and `WORKER_QUEUE_PREFIX=bull`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fleet import running
from tests.fleet.running import Running
from tests.node.node import NodeRoom
from tests.node.ours import until
from tests.stores.redis.servers import Server
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
PROGRAM = Path(__file__).parent / "program.py"


@pytest.fixture
def worker(tmp_path: Path, server: Server) -> Iterator[Running]:
    started = running.start(tmp_path, program=PROGRAM, store=server.url, queue_prefix="bull")
    running.STARTED.remove(started)
    yield started
    started.end()


@pytest_asyncio.fixture
async def ready(worker: Running, store: RedisStore) -> AsyncIterator[Running]:
    """The run, with a worker that has said so in the store."""
    async with asyncio.timeout(60):
        while not await store.fleet.workers():
            assert worker.process.poll() is None, worker.log()
            await asyncio.sleep(0.05)
    yield worker


async def test_it_runs_what_node_adds(node: NodeRoom, ready: Running) -> None:
    queue, events = await node.queue(), await node.events()
    jobs = [
        {"name": "ok", "data": {"to": "Ä"}, "opts": {"jobId": "ok"}},
        {"name": "fail", "data": {"message": "boom"}, "opts": {"jobId": "fail", "attempts": 2}},
        {"name": "flaky", "data": {"times": 1}, "opts": {"jobId": "flaky", "attempts": 3, "backoff": 50}},
        {"name": "fatal", "data": {"message": "no way"}, "opts": {"jobId": "fatal", "attempts": 5}},
        {"name": "ok", "data": 1, "opts": {"jobId": "late", "delay": 200}},
        {"name": "ok", "data": 2, "opts": {"jobId": "first", "priority": 1}},
    ]
    await queue.call("addBulk", jobs)
    await events.until_saw("completed", "ok", "flaky", "late", "first")
    await events.until_saw("failed", "fail", "fatal")
    said = {job_id: await queue.job(job_id) for job_id in ("ok", "fail", "flaky", "fatal", "late", "first")}
    assert {job_id: job["returnvalue"] for job_id, job in said.items()} == {
        "ok": {"to": "Ä"}, "fail": None, "flaky": 2, "fatal": None, "late": 1, "first": 2,
    }  # fmt: skip
    assert {job_id: job["attemptsMade"] for job_id, job in said.items()} == {
        "ok": 1, "fail": 2, "flaky": 2, "fatal": 1, "late": 1, "first": 1,
    }  # fmt: skip
    assert said["fail"]["failedReason"] == "boom"
    assert "program.py" in said["fail"]["stacktrace"][-1]
    assert said["fatal"]["failedReason"] == "no way"


async def test_it_hears_and_is_listed_and_pauses_and_stops(node: NodeRoom, ready: Running) -> None:
    queue, events = await node.queue(), await node.events()
    async with asyncio.timeout(30):
        while not await queue.call("getWorkers"):
            await asyncio.sleep(0.05)
    await queue.call("pause")
    await queue.call("add", "ok", 1, {"jobId": "a"})
    await queue.call("resume")
    await events.until_saw("completed", "a")
    await queue.call("add", "slow", {"ms": 1_000}, {"jobId": "b"})
    await events.until_saw("active", "b")
    ready.supervisor.send_signal(signal.SIGTERM)
    await until(lambda: ready.process.poll() is not None, "the end of the run")
    assert ready.process.returncode == 0
    assert (await queue.job("b"))["returnvalue"] == "slept"
    assert await queue.call("getJobCounts", "active", "wait") == {"active": 0, "wait": 0}


@pytest.mark.timeout(300)
async def test_a_job_of_a_killed_run_is_recovered_by_node(node: NodeRoom, ready: Running) -> None:
    queue, events = await node.queue(), await node.events()
    await queue.call("add", "slow", {"ms": 60_000}, {"jobId": "a"})
    await events.until_saw("active", "a")
    ready.end()
    await queue.job("a", "updateData", {"ms": 1})
    worker = await node.worker(stalledInterval=500)
    # Its lock lasts for a lease, 30 s.
    await worker.until_saw("completed", "a", timeout_s=180)
    assert (await queue.job("a"))["returnvalue"] == "slept"
