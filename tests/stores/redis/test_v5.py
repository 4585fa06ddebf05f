"""Beside BullMQ 5: waiting jobs of a paused queue are where it looks for them, and an operator hears of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.stores.redis.bullmq_side import add, texts
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.fleet import ProcessIdentity, WorkerRecord
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.redis.peers import QueuePeers
from workfleet.stores.redis.store import RedisStore

NOW = 1_800_000_000_000


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    yield opened
    await opened.close()


def jobs(*ids: str) -> list[JobRecord]:
    return [JobRecord(id=each, queue="q", name="n") for each in ids]


def lists(server: Server) -> tuple[list[str], list[str]]:
    """What is in `wait` and in `paused`, in the order in which it is served."""
    wait, paused = (texts(server.ask("LRANGE", f"bull:q:{name}", 0, -1))[::-1] for name in ("wait", "paused"))
    return wait, paused


async def claimed(store: RedisStore, token: str = "t") -> list[JobRecord]:
    return await store.jobs.claim(ClaimRequest("w", token, 30_000, (Want("q", 10),)))


def pause_by_v5(server: Server) -> None:
    server.ask("HSET", "bull:q:meta", "paused", 1, "version", "bullmq:5.81.3")
    server.ask("RENAME", "bull:q:wait", "bull:q:paused")


async def test_beside_v6_a_paused_queue_keeps_its_jobs(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a"))
    await store.queues.set_paused("q", paused=True)
    await store.jobs.enqueue(jobs("b"))
    assert lists(server) == (["a", "b"], [])


async def test_what_is_added_to_a_queue_that_v5_paused(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a"))
    pause_by_v5(server)
    await store.jobs.enqueue(jobs("b"))
    assert lists(server) == ([], ["a", "b"])
    assert await claimed(store) == []
    # As v5 resumes: it renames over whatever is in `wait`.
    server.ask("HDEL", "bull:q:meta", "paused")
    server.ask("RENAME", "bull:q:paused", "bull:q:wait")
    assert [record.id for record in await claimed(store)] == ["a", "b"]


async def test_the_list_alone_says_so(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a"))
    pause_by_v5(server)
    server.ask("HSET", "bull:q:meta", "version", "bullmq:6.7.0")
    await store.jobs.enqueue(jobs("b"))
    assert lists(server) == ([], ["a", "b"])


@pytest.mark.parametrize(("version", "kept"), [("bullmq:5.1.0", True), ("bullmq:10.0.0", False), ("nonsense", False)])
async def test_a_pause_of_ours_beside_v5(store: RedisStore, server: Server, version: str, kept: bool) -> None:
    await store.jobs.enqueue(jobs("a"))
    server.ask("HSET", "bull:q:meta", "version", version)
    await store.queues.set_paused("q", paused=True)
    await store.jobs.enqueue(jobs("b"))
    assert lists(server) == (([], ["a", "b"]) if kept else (["a", "b"], []))
    assert await store.queues.set_paused("q", paused=False)
    assert lists(server) == (["a", "b"], [])


async def test_a_resume_of_ours_merges_both_lists(store: RedisStore, server: Server) -> None:
    """v6 paused it, v5 added, v5's own resume would have lost what v6 had left in `wait`."""
    await store.jobs.enqueue(jobs("a", "b"))
    await store.queues.set_paused("q", paused=True)
    for number in range(2_500):
        server.ask("LPUSH", "bull:q:paused", f"x{number}")
    assert await store.queues.set_paused("q", paused=False)
    assert lists(server) == ([*(f"x{number}" for number in range(2_500)), "a", "b"], [])


async def test_what_a_resume_of_v6_left_is_fetched_by_ours(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a"))
    add(server, "q", "7", NOW, paused=True)
    assert not await store.queues.set_paused("q", paused=False)
    assert lists(server) == (["7", "a"], [])


async def test_jobs_in_the_list_are_waiting_ones(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a", "b", "c"))
    pause_by_v5(server)
    (record,) = await store.jobs.get(["a"])
    assert record is not None
    assert record.state is JobState.WAITING
    assert (await store.jobs.counts())["q"].waiting == 3
    assert await store.jobs.delete(["a"]) == [True]
    assert await store.jobs.cancel(["b"]) == ["cancelled"]
    assert lists(server) == ([], ["c"])
    assert await store.jobs.purge("q", [JobState.WAITING]) == 1
    assert lists(server) == ([], [])


async def test_what_returns_to_waiting_goes_there_too(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a", "b"))
    a, b = await claimed(store)
    await store.jobs.enqueue(jobs("c"))
    pause_by_v5(server)
    before = await store.now_ms()
    while await store.now_ms() == before:
        pass  # in one millisecond "b" would not be later than "c"
    back = Outcome(state=JobState.WAITING, code="given_back", attempts_made=0)
    later = Outcome(state=JobState.DELAYED, code="snoozed", attempts_made=0, delay_ms=0)
    await store.jobs.settle([Settlement(a.claim, back), Settlement(b.claim, later)])
    assert lists(server) == ([], ["a", "c", "b"])


async def test_who_else_is_about(store: RedisStore, server: Server) -> None:
    identity = ProcessIdentity(host="h", boot_id="b", pid=1, started="s")
    await store.fleet.register(WorkerRecord(id="w", identity=identity))
    await store.jobs.enqueue(jobs("a"))
    await claimed(store)
    plain = QueuePeers(
        queue="q", version="bullmq:6.7.0", is_v5=False, paused=False, kept_by_v5=None, groups=0, workers=()
    )
    assert await store.peers() == [plain]
    assert plain.warning is None
    other = await RedisStore.open(server.url, app="stock", clock=SystemClock(), prefix="bull")
    await other.jobs.claim(ClaimRequest("elsewhere", "t9", 30_000, (Want("q", 1),)))
    while (await store.peers())[0].workers != ("bull:cQ==:w:elsewhere",):
        await other.now_ms()
    await other.close()


async def test_what_an_operator_hears(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("a", "b"))
    pause_by_v5(server)
    before = server.ask("DBSIZE")
    (peers,) = await store.peers()
    assert server.ask("DBSIZE") == before
    assert (peers.version, peers.is_v5, peers.paused, peers.kept_by_v5) == ("bullmq:5.81.3", True, True, 2)
    assert peers.warning is not None
    assert peers.warning.startswith("bullmq:5.81.3 uses queue 'q': ")
    server.ask("HSET", "bull:q:meta", "version", "bullmq:6.7.0")
    (peers,) = await store.peers()
    assert peers.warning is not None
    assert peers.warning.startswith("queue 'q' has 2 jobs where BullMQ 5 keeps those of a paused queue: ")
    server.ask("ACL", "SETUSER", "default", "-client")
    try:
        (peers,) = await store.peers()
        assert peers.workers is None
    finally:
        server.ask("ACL", "SETUSER", "default", "+client")
