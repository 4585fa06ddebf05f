"""A key of a queue that another program has written: a call that needs it changes nothing, and `doctor` names it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
import pytest_asyncio

from tests.stores.redis.bullmq_side import fields, texts
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobRecord, Keep, KeepRule
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.jobs import ClaimRequest, TakeOver, Want
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import FAILED, RAISED, claim, ended, finish, ids, job, jobs

KINDS = {
    "wait": "list", "active": "list", "delayed": "zset", "prioritized": "zset", "completed": "zset", "failed": "zset",
    "waiting-children": "zset", "marker": "zset", "stalled": "set", "events": "stream", "meta": "hash", "id": "string",
    "pc": "string", "limiter": "string", "repeat": "zset", "metrics:completed": "hash",
    "metrics:completed:data": "list", "metrics:failed": "hash", "metrics:failed:data": "list",
    "wf:queue:claims": "hash", "wf:queue:groups": "zset", "wf:queue:turn": "hash", "wf:queue:limits": "string",
    "wf:queue:said": "hash", "wf:queue:starts": "zset", "wf:queue:rated": "set", "wf:queue:house": "set",
    "wf:queue:again": "set", "wf:queue:kept": "set",
}  # fmt: skip
LIMITS = QueueLimits(concurrency=100, rate=Rate(1_000, 1_000), group=GroupLimits(rate=Rate(1_000, 1_000)))
BRIEF = Keep(completed=KeepRule(count=7), failed=KeepRule(count=7))
Held = Sequence[JobRecord]


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock(), metrics_minutes=60)
    yield opened
    await opened.close()


def _many() -> list[JobRecord]:
    return [
        job("n1"), job("n2", priority=3), job("n3", delay_ms=60_000), job("n4", group="g"), job("n5", unique_key="k"),
        job("n6", housekeeping=True),
    ]  # fmt: skip


def _again(number: int) -> ClaimRequest:
    return ClaimRequest("w1", f"again-{number}", 30_000, (Want("q", number),))


CALLS: dict[str, Callable[[RedisStore, Held], Awaitable[object]]] = {
    "enqueue": lambda s, _: s.jobs.enqueue(jobs("n1 n2")),
    "enqueue others": lambda s, _: s.jobs.enqueue(_many()),
    "claim": lambda s, _: s.jobs.claim(_again(2)),
    "claim all": lambda s, _: s.jobs.claim(_again(9)),
    "complete": lambda s, held: s.jobs.settle([ended(each) for each in held], _again(9)),
    "fail": lambda s, held: s.jobs.settle([ended(each, FAILED) for each in held], _again(2)),
    "try again": lambda s, held: s.jobs.settle([ended(each, RAISED) for each in held]),
    "cancel": lambda s, _: s.jobs.cancel(["d"]),
    "promote": lambda s, _: s.jobs.promote(["later"]),
    "retry": lambda s, _: s.jobs.retry(["bad"]),
    "delete": lambda s, _: s.jobs.delete(["e"]),
    "take over": lambda s, _: s.jobs.take_over(TakeOver("w9", "t9", 30_000, workers=("w1",))),
    "give back": lambda s, held: s.jobs.settle([ended(each, GIVE_BACK) for each in held]),
}


async def _prepared(store: RedisStore, limits: QueueLimits) -> Held:
    """Jobs of every kind that wait, and one that has failed, and two that run."""
    await store.queues.set_limits({"q": limits})
    await store.jobs.enqueue(jobs("bad"))
    await finish(store, await claim(store), FAILED)
    await store.jobs.enqueue([job("a"), job("b", keep=BRIEF)])
    held = await claim(store, 2)
    assert ids(held) == "a b"
    await store.jobs.enqueue([job("c"), job("d", priority=2), job("e", group="g")])
    await store.jobs.enqueue([job("later", delay_ms=60_000), job("f", delay_ms=1)])
    await store.jobs.enqueue([job("g", delay_ms=1, priority=4), job("h", delay_ms=1, group="g")])
    return held


async def _refused(call: Awaitable[object]) -> str | None:
    """What a call fails with; nothing where it does not need the key."""
    try:
        await call
    except StoreUnavailable as error:
        return str(error)
    return None


def _dump(server: Server) -> dict[str, object]:
    """Every key. Where a hash is read the server may change the order of its fields."""
    keys = sorted(texts(server.ask("KEYS", "*")))
    hashes = {key for key in keys if server.ask("TYPE", key) == b"hash"}
    return {key: fields(server, key) if key in hashes else server.ask("DUMP", key) for key in keys}


@pytest.mark.parametrize("limits", [LIMITS, pytest.param(QueueLimits(), marks=pytest.mark.full)], ids=["limits", ""])
@pytest.mark.parametrize("suffix", KINDS)
async def test_a_call_changes_nothing(store: RedisStore, server: Server, suffix: str, limits: QueueLimits) -> None:
    key = f"shop:q:{suffix}"
    for name, call in CALLS.items():
        server.ask("FLUSHALL")
        held = await _prepared(store, limits)
        server.ask("DEL", key)
        server.ask(*(("RPUSH", key, "x") if KINDS[suffix] == "string" else ("SET", key, "x")))
        before = _dump(server)
        refused = await _refused(call(store, held))
        if refused is not None:
            assert "`workfleet doctor` names the key" in refused, name
            assert _dump(server) == before, name


@pytest.mark.parametrize("suffix", KINDS)
async def test_doctor_names_it(store: RedisStore, server: Server, suffix: str) -> None:
    await _prepared(store, LIMITS)
    assert [each.said for each in await store.exam.findings() if each.level == "problem"] == []
    wrong = "list" if KINDS[suffix] == "string" else "string"
    server.ask("DEL", f"shop:q:{suffix}")
    server.ask(*(("RPUSH", f"shop:q:{suffix}", "x") if wrong == "list" else ("SET", f"shop:q:{suffix}", "x")))
    (found,) = [each.said for each in await store.exam.findings() if each.level == "problem"]
    assert found == f"shop:q:{suffix} is a {wrong} and should be a {KINDS[suffix]}"
