"""Every call of the store loses its connection once: before the server has it, after it was carried out, and in the
middle of its reply. Whoever repeats it then finds what one call does, and nothing twice."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct, structs

from tests.stores.redis.proxy import Proxy, When
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.fleet import PoolOrder, PoolReport, ProcessIdentity, WorkerRecord
from workfleet.model.handout import DueRequest, Hold
from workfleet.model.jobs import JobRecord, JobState, Keep, KeepRule
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import JobQuery, JobStore, PruneRule, TakeOver
from workfleet.ports.ledger import LedgerStore
from workfleet.ports.schedules import ScheduleStore
from workfleet.ports.stores import FleetStore, KeyStore, LockStore, QueueStore
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import COMPLETED, FAILED, RAISED, ManualClock, ended, job, jobs, pulse, request
from workfleet.testing.contracts.repeats import picture
from workfleet.testing.contracts.schedules import SLOT, fire, schedule

PARTS = {
    "jobs": JobStore, "queues": QueueStore, "schedules": ScheduleStore, "locks": LockStore, "keys": KeyStore,
    "fleet": FleetStore, "ledger": LedgerStore,
}  # fmt: skip
HOW: tuple[When, ...] = ("before", "after", "within")


class Scene(Struct, frozen=True):
    """A store in which something of everything is there, and what was claimed of it."""

    store: RedisStore
    claimed: dict[str, JobRecord]

    def claim(self, job_id: str) -> Any:
        return self.claimed[job_id].claim


Call = Callable[[Scene], Awaitable[object]]
KEEP = LedgerKeep(age_ms=86_400_000, count=2)
ROWS = [LedgerRow(id=str(n), at_ms=SLOT + n, schedule="s", outcome="completed") for n in range(3)]
NONE = Keep(KeepRule(count=0), KeepRule(count=0))
WORKER = WorkerRecord(id="w1", identity=ProcessIdentity("host", "boot", 1, "1"))
FIRST_AGAIN: dict[str, Call] = {
    "jobs.enqueue": lambda s: s.store.jobs.enqueue([*jobs("n1 n2"), job("u", unique_key="key")], call="c"),
    "jobs.claim": lambda s: s.store.jobs.claim(request(2, token="t1")),
    "jobs.settle": lambda s: s.store.jobs.settle([_with_child(s, "a"), ended(s.claimed["b"], RAISED)]),
    "jobs.settle+claim": lambda s: s.store.jobs.settle([_with_child(s, "a")], request(2, token="t1")),
    "jobs.settle, not kept": lambda s: s.store.jobs.settle([ended(s.claimed[each]) for each in ("k", "l", "b")]),
    "jobs.settle, not kept when failed": lambda s: s.store.jobs.settle([ended(s.claimed["k"], FAILED)]),
    "jobs.renew": lambda s: s.store.jobs.renew([s.claim("a"), s.claim("b")], 50_000),
    "jobs.report": lambda s: s.store.jobs.report(s.claim("a"), progress=b"1", lines=["x", "y"], call="c"),
    "jobs.take_over": lambda s: s.store.jobs.take_over(TakeOver("reaper", "t1", 50_000)),
    "jobs.cancels": lambda s: s.store.jobs.cancels([s.claim("a"), s.claim("b")]),
    "jobs.place": lambda s: s.store.jobs.place("late"),
    "jobs.children": lambda s: s.store.jobs.children("a"),
    "jobs.get": lambda s: s.store.jobs.get(["a", "late", "nobody"]),
    "jobs.find": lambda s: s.store.jobs.find(JobQuery(limit=3)),
    "jobs.logs": lambda s: s.store.jobs.logs("b"),
    "jobs.counts": lambda s: s.store.jobs.counts(),
    "jobs.expires_in_ms": lambda s: s.store.jobs.expires_in_ms(),
    "jobs.next_due_ms": lambda s: s.store.jobs.next_due_ms(["q"]),
    "queues.set_limits": lambda s: s.store.queues.set_limits({"q": QueueLimits(concurrency=7)}),
    "queues.all": lambda s: s.store.queues.all(),
    "schedules.merge": lambda s: s.store.schedules.merge([schedule("new")]),
    "schedules.set_paused": lambda s: s.store.schedules.set_paused("s", paused=True),
    "schedules.all": lambda s: s.store.schedules.all(),
    "schedules.get": lambda s: s.store.schedules.get(["s", "nobody"]),
    "schedules.page": lambda s: s.store.schedules.page("", 10),
    "schedules.hold": lambda s: s.store.schedules.hold([Hold("s", SLOT, SLOT + 900_000)]),
    "schedules.fire": lambda s: s.store.schedules.fire([fire("s", call="c")]),
    "ledger.record": lambda s: s.store.ledger.record(ROWS, KEEP),
    "ledger.history": lambda s: s.store.ledger.history("s"),
    "locks.acquire": lambda s: s.store.locks.acquire("free", "me", 700),
    "locks.renew": lambda s: s.store.locks.renew("held", "me", 900),
    "locks.held": lambda s: s.store.locks.held(),
    "keys.get": lambda s: s.store.keys.get("k"),
    "keys.replace": lambda s: s.store.keys.replace("k", b"v", b"w", 60_000),
    "fleet.register": lambda s: s.store.fleet.register(structs.replace(WORKER, id="w2")),
    "fleet.instruct": lambda s: s.store.fleet.instruct("w1", "stop"),
    "fleet.order": lambda s: s.store.fleet.order("w1", PoolOrder(id="o", pool="cpu", verb="recycle")),
    "fleet.workers": lambda s: s.store.fleet.workers(),
    "check": lambda s: s.store.check(),
}
"""A repeat of these gives the first answer."""
AS_FOUND: dict[str, Call] = {
    "jobs.retry": lambda s: s.store.jobs.retry(["failed", "a"]),
    "jobs.cancel": lambda s: s.store.jobs.cancel(["late", "a", "nobody"]),
    "jobs.promote": lambda s: s.store.jobs.promote(["late", "a"]),
    "jobs.delete": lambda s: s.store.jobs.delete(["late", "failed", "a"]),
    "jobs.purge": lambda s: s.store.jobs.purge("q", [JobState.WAITING, JobState.FAILED]),
    "jobs.prune": lambda s: s.store.jobs.prune([PruneRule(JobState.FAILED, count=0)]),
    "queues.set_paused": lambda s: s.store.queues.set_paused("q", paused=True),
    "schedules.put": lambda s: s.store.schedules.put(schedule("new", from_code=False), replace=False),
    "schedules.claim_due": lambda s: s.store.schedules.claim_due(DueRequest(10, 0, 60_000)),
    "schedules.remove": lambda s: s.store.schedules.remove("s"),
    "ledger.prune": lambda s: s.store.ledger.prune(1),
    "locks.release": lambda s: s.store.locks.release("held", "me"),
    "keys.put_if_absent": lambda s: s.store.keys.put_if_absent("new", b"mine", 60_000),
    "keys.delete": lambda s: s.store.keys.delete("k", b"v"),
    "fleet.forget": lambda s: s.store.fleet.forget("w1"),
    "pulse": lambda s: pulse(
        s.store,
        probe=job("r", queue="r"),
        claim=request(token="t1", r=2),
        worker="w1",
        active=3,
        pools=(PoolReport(name="cpu", state="running", size=2),),
        obeyed=("done",),
    ),
}
"""A repeat of these says what it finds."""
NO_CALLS = {"jobs.wait", "jobs.wait_for_cancels", "schedules.wait"}
"""They wait in this process."""


def _with_child(scene: Scene, job_id: str) -> Any:
    return ended(scene.claimed[job_id], structs.replace(COMPLETED, follow_up=(job(f"child-of-{job_id}"),)))


@asynccontextmanager
async def scene(url: str, server: Server) -> AsyncIterator[Scene]:
    server.ask("FLUSHALL")
    clock = ManualClock()
    store = await RedisStore.open(url, app="shop", clock=clock, test_now_ms=clock.now_ms)
    try:
        await store.jobs.enqueue([*jobs("failed a b"), *jobs("k l", keep=NONE), job("late", delay_ms=900_000)])
        claimed = {each.id: each for each in await store.jobs.claim(request(5, token="t0", lease_ms=60_000))}
        await store.jobs.settle([ended(claimed["failed"], FAILED)])
        await store.jobs.report(claimed["b"].claim, lines=["said"])
        await store.jobs.enqueue([*jobs("x y z"), job("first", unique_key="key")])
        await store.schedules.merge([schedule("s")])
        await store.ledger.record(ROWS[:1], KEEP)
        await store.locks.acquire("held", "me", 900_000)
        await store.keys.put_if_absent("k", b"v", 900_000)
        await store.fleet.register(WORKER)
        # The leases are over. Long ones: keys of BullMQ's expire by the time of the machine.
        await clock.advance(61_000)
        yield Scene(store, claimed)
    finally:
        await store.close()


async def seen(scene: Scene, server: Server) -> object:
    """All that can be seen, the names of the keys, the events."""
    keys = server.ask("KEYS", "*")
    assert isinstance(keys, list)
    events = server.ask("XRANGE", "shop:q:events", "-", "+")
    assert isinstance(events, list)
    # BullMQ tells of every attempt that found its key taken, of a repeated one too.
    told = [fields for _, fields in events if b"deduplicated" not in fields]
    others = await scene.store.locks.held(), await scene.store.fleet.workers(), await scene.store.keys.get("k")
    rows = await scene.store.ledger.history("s")
    return {"keys": sorted(keys), "told": told, "others": others, "rows": rows, "picture": await picture(scene.store)}


@pytest.fixture
async def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    # The next call need not wait: what is asked here is not how often it connects.
    monkeypatch.setattr("workfleet.stores.redis.reconnecting.STEADY_S", 0.0)
    async with Proxy(server.port) as made:
        yield made


@pytest.mark.parametrize("name", [*FIRST_AGAIN, *AS_FOUND])
async def test_a_call_that_was_lost_is_repeated(name: str, proxy: Proxy, server: Server) -> None:
    call = (FIRST_AGAIN | AS_FOUND)[name]
    async with scene(proxy.url, server) as here:
        before = Counter(proxy.calls)
        first = await call(here)
        # Connections that have nothing to say ask for a sign of life now and then.
        asked = [part for part in proxy.calls if proxy.calls[part] > before[part] and part != "PING"]
        after_one = await seen(here, server)
        again = await call(here)
        assert await seen(here, server) == after_one
    assert name not in FIRST_AGAIN or again == first
    assert asked
    for part in asked:
        for when in HOW:
            async with scene(proxy.url, server) as here:
                proxy.lose(part, number=proxy.calls[part] + 1, when=when)
                with pytest.raises(StoreUnavailable, match="the connection was lost"):
                    await call(here)
                assert await call(here) == (first if when == "before" else again), (part, when)
                assert await seen(here, server) == after_one, (part, when)
    assert len(proxy.lost) == len(asked) * len(HOW)


def test_no_call_was_forgotten() -> None:
    calls = {
        f"{name}.{method}"
        for name, part in PARTS.items()
        for method, found in inspect.getmembers(part, inspect.iscoroutinefunction)
        if not method.startswith("_")
    }
    more = {"jobs.settle+claim", "jobs.settle, not kept", "jobs.settle, not kept when failed", "check", "pulse"}
    assert calls | more == {*FIRST_AGAIN, *AS_FOUND, *NO_CALLS}


async def test_the_time_is_asked_again(proxy: Proxy) -> None:
    store = await RedisStore.open(proxy.url, app="shop", clock=SystemClock())
    try:
        for when in HOW:
            proxy.lose("TIME", number=proxy.calls["TIME"] + 2, when=when)
            before = await store.now_ms()
            with pytest.raises(StoreUnavailable, match="the connection was lost"):
                await store.now_ms()
            assert await store.now_ms() >= before
    finally:
        await store.close()
