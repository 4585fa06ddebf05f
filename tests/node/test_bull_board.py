"""bull-board over our queues, through its own HTTP interface: it lists, retries, promotes, cleans."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, finish, job, raised, returned
from tests.stores.redis.servers import Server
from workfleet.ids import new_token
from workfleet.model.jobs import JobRecord, JobState, RunOverrides
from workfleet.model.limits import QueueLimits
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full


class Board:
    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/queues"

    async def ask(self, path: str = "", method: str = "GET", body: object = None) -> Any:
        return await asyncio.to_thread(self._ask, path, method, body)

    def _ask(self, path: str, method: str, body: object) -> Any:
        said = None if body is None else json.dumps(body).encode()
        asked = Request(self._base + path, data=said, method=method, headers={"content-type": "application/json"})
        with urlopen(asked, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    async def listed(self, status: str) -> list[dict[str, Any]]:
        found = await self.ask(f"?activeQueue=q&status={status}&page=1&jobsPerPage=50")
        (queue,) = found["queues"]
        jobs: list[dict[str, Any]] = queue["jobs"]
        return jobs

    async def counts(self) -> dict[str, int]:
        (queue,) = (await self.ask("?activeQueue=q&status=latest&page=1&jobsPerPage=50"))["queues"]
        return {state: count for state, count in queue["counts"].items() if count}


async def board_of(node: NodeRoom) -> Board:
    return Board(await node.board(await node.queue()))


async def ended(store: RedisStore, job_id: str) -> JobRecord:
    (record,) = await store.jobs.get([job_id])
    assert record is not None
    return record


async def test_it_lists_what_we_did(node: NodeRoom, store: RedisStore) -> None:
    board = await board_of(node)
    await store.jobs.enqueue([job("good", data={"to": "Ä"}), job("bad", run=RunOverrides(attempts=1)), job("runs")])
    good, bad, _ = await claim(store, 3)
    await store.jobs.report(good.claim, progress=b"50", lines=["one", "two"], call=new_token())
    await finish(store, good, returned({"x": 1}))
    await finish(store, bad, raised("boom"))
    await store.jobs.enqueue([job("late", delay_ms=60_000), job("first", priority=3), job("w")])
    assert await board.counts() == {
        "completed": 1, "failed": 1, "active": 1, "delayed": 1, "prioritized": 1, "waiting": 1,
    }  # fmt: skip
    (completed,) = await board.listed("completed")
    assert (completed["id"], completed["name"], completed["data"], completed["progress"]) == (
        "good",
        "ok",
        {"to": "Ä"},
        50,
    )
    assert (completed["returnValue"], completed["attempts"], completed["processedBy"]) == ({"x": 1}, 1, "py1")
    assert completed["isFailed"] is False
    (failed,) = await board.listed("failed")
    assert (failed["failedReason"], failed["isFailed"]) == ("boom", True)
    assert "in work" in failed["stacktrace"][0]
    assert await board.ask("/q/good/logs") == ["one", "two"]
    shown = await board.ask("/q/late")
    assert shown["status"] == "delayed"


async def test_it_retries_one_and_all(node: NodeRoom, store: RedisStore) -> None:
    board = await board_of(node)
    await store.jobs.enqueue([job(name, run=RunOverrides(attempts=1)) for name in "abc"])
    for record in await claim(store, 3):
        await finish(store, record, raised("boom"))
    await board.ask("/q/a/retry", "PUT")
    (record,) = await claim(store, 9)
    assert record.id == "a"
    await finish(store, record, returned(1))
    assert (await ended(store, "a")).state is JobState.COMPLETED
    await board.ask("/q/retry/failed", "PUT")
    assert sorted(record.id for record in await claim(store, 9)) == ["b", "c"]


async def test_it_promotes_one_and_all(node: NodeRoom, store: RedisStore) -> None:
    board = await board_of(node)
    await store.jobs.enqueue([job(name, delay_ms=3_600_000) for name in "abc"])
    await board.ask("/q/b/promote", "PUT")
    assert [record.id for record in await claim(store, 9)] == ["b"]
    await board.ask("/q/promote", "PUT")
    assert [record.id for record in await claim(store, 9)] == ["a", "c"]


async def test_it_cleans_one_and_all(node: NodeRoom, store: RedisStore, server: Server) -> None:
    board = await board_of(node)
    await store.jobs.enqueue([job(name) for name in "abcd"])
    for record in await claim(store, 3):
        await finish(store, record, returned(1))
    await board.ask("/q/a/clean", "PUT")
    assert await board.counts() == {"completed": 2, "waiting": 1}
    for name in "bc":  # it spares what has ended within the last seconds
        server.ask("ZADD", "bull:q:completed", await store.now_ms() - 60_000, name)
        server.ask("HSET", f"bull:q:{name}", "finishedOn", await store.now_ms() - 60_000)
    await board.ask("/q/clean/completed", "PUT")
    assert await board.counts() == {"waiting": 1}
    assert [record is None for record in await store.jobs.get(list("abcd"))] == [True, True, True, False]
    assert [record.id for record in await claim(store, 9)] == ["d"]


async def test_it_pauses_resumes_and_adds(node: NodeRoom, store: RedisStore) -> None:
    await store.queues.set_limits({"q": QueueLimits()})  # as every worker does when it starts
    board = await board_of(node)
    await board.ask("/q/pause", "PUT")
    assert (await store.queues.all())["q"].paused
    await board.ask("/q/add", "POST", {"name": "ok", "data": {"n": 1}, "options": {}})
    assert await claim(store, 9) == []
    await board.ask("/q/resume", "PUT")
    (record,) = await claim(store, 9)
    assert (record.name, record.payload) == ("ok", b'{"n":1}')
