"""What `workfleet queues ls` and `workfleet doctor` say of Node's workers on the same queues."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, finish, job, returned
from tests.stores.redis.servers import Server
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
PROGRAM = Path(__file__).parent / "program.py"


def command(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As an operator gives it, with the settings of the workers."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("WORKER_", "REDIS_", "DB_"))}
    environ |= {"WORKER_STORE": server.url, "WORKER_QUEUE_PREFIX": "bull", "WORKER_APP": str(PROGRAM)}
    line = [sys.executable, "-m", "workfleet", *arguments]
    return subprocess.run(line, env=environ, capture_output=True, text=True, timeout=90, check=False)


async def said(server: Server, *arguments: str) -> list[dict[str, Any]]:
    ran = await asyncio.to_thread(command, server, *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


async def warnings(server: Server) -> dict[str, str]:
    return {each["check"]: each["said"] for each in await said(server, "doctor") if each["level"] == "warning"}


async def test_queues_say_who_of_node_listens(node: NodeRoom, store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue([job("a", queue="q"), job("b", queue="alone")])
    named, unnamed = await node.worker(name="api"), await node.worker()
    await named.call("waitUntilReady")
    await unnamed.call("waitUntilReady")
    listed = {each["queue"]: each for each in await said(server, "queues", "ls")}
    assert listed["q"]["others"] == ["bull:cQ==", "bull:cQ==:w:api"]
    assert (listed["q"]["workers"], listed["alone"]["others"]) == ([], [])
    text = (await asyncio.to_thread(command, server, "queues", "ls")).stdout
    (row,) = [line for line in text.splitlines() if line.startswith("q ")]
    assert row.endswith("2 of BullMQ")
    await named.close()
    await unnamed.close()
    assert [each["queue"] for each in await said(server, "queues", "ls") if each["others"]] == []


async def test_a_queue_that_only_node_listens_to_is_not_deserted(
    node: NodeRoom, store: RedisStore, server: Server
) -> None:
    await store.jobs.enqueue([job("a", queue="held"), job("b", queue="alone")])
    # It listens, but asks for no job.
    listens = await node.worker("held", work=False)
    await listens.call("waitUntilReady")
    found = [each["said"] for each in await said(server, "doctor") if each["check"] == "queues"]
    assert found == ["1 job waits on queue 'alone', to which nobody listens"]


async def test_limits_that_node_ignores_are_warned_of(node: NodeRoom, store: RedisStore, server: Server) -> None:
    grouped = QueueLimits(group=GroupLimits(concurrency=1))
    await store.queues.set_limits({"q": grouped, "kept": QueueLimits(concurrency=2, rate=Rate(5, 1_000))})
    await store.jobs.enqueue([job("a", group="tenant", delay_ms=3_600_000)])
    assert "group limits" not in await warnings(server)
    workers = [await node.worker(queue, name="api") for queue in ("q", "kept")]
    for worker in workers:
        await worker.call("waitUntilReady")
    assert (await warnings(server))["group limits"] == (
        "queue 'q' has limits for groups, which only workfleet's workers keep, and 1 BullMQ worker listens to it: "
        "bull:cQ==:w:api"
    )
    await workers[0].close()
    assert "group limits" not in await warnings(server)


async def test_jobs_of_groups_that_node_never_runs_are_warned_of(
    node: NodeRoom, store: RedisStore, server: Server
) -> None:
    await store.jobs.enqueue([job("a", group="tenant")])
    assert "groups" not in await warnings(server)
    worker = await node.worker("q", name="api")
    await worker.call("waitUntilReady")
    assert (await warnings(server))["groups"] == (
        "queue 'q' has jobs of groups, which only workfleet's workers run, and 1 BullMQ worker listens to it: "
        "bull:cQ==:w:api"
    )
    await finish(store, (await claim(store))[0], returned(1))
    assert "groups" not in await warnings(server)


async def test_a_fifth_version_is_warned_of(node: NodeRoom, store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue([job("a")])
    assert "BullMQ 5" not in await warnings(server)
    queue = await node.queue(lib=5)
    await queue.call("waitUntilReady")
    warning = (await warnings(server))["BullMQ 5"]
    assert "uses queue 'q': pausing and resuming by BullMQ 5" in warning
    listed = await asyncio.to_thread(command, server, "queues", "ls")
    assert listed.stderr.startswith(f"Warning: {warning}. ")
