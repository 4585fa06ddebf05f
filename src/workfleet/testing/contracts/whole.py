"""Contract of `Store` itself and of `FleetStore`: time, apps that do not meet, who works here."""

from __future__ import annotations

import pytest
from msgspec import structs

from workfleet.model.fleet import ChildReport, PoolOrder, PoolReport, PoolVerb, ProcessIdentity, WorkerRecord
from workfleet.model.jobs import Enqueued, JobState
from workfleet.model.limits import QueueLimits, Rate
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.ports.stores import Store

from .harness import ManualClock, Opener, beat, claim, ended, ids, job, jobs, pulse, request
from .schedules import fire, schedule

IDENTITY = ProcessIdentity(host="h", boot_id="b", pid=7, started="123.5")


def order(order_id: str, verb: PoolVerb, *, pool: str = "cpu", size: int | None = None) -> PoolOrder:
    return PoolOrder(id=order_id, pool=pool, verb=verb, size=size)


@pytest.mark.asyncio
class TestFleet:
    async def test_register_sets_the_times(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        handlers: dict[str, tuple[str, ...]] = {"a": ("x", "y z"), "b c": ()}
        worker = WorkerRecord(id="w2", identity=IDENTITY, queues=("a", "b c"), handlers=handlers, release="1.2")
        await store.fleet.register(structs.replace(worker, started_ms=5, seen_ms=6))
        await store.fleet.register(WorkerRecord(id="w1", identity=IDENTITY))
        assert await store.fleet.workers() == [
            WorkerRecord(id="w1", identity=IDENTITY, started_ms=now, seen_ms=now),
            structs.replace(worker, started_ms=now, seen_ms=now),
        ]

    async def test_register_replaces(self, store: Store, clock: ManualClock) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY, queues=("a",), release="1"))
        await clock.advance(9)
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
        (worker,) = await store.fleet.workers()
        assert (worker.queues, worker.release, worker.started_ms) == ((), "", await store.now_ms())

    async def test_beat_says_when_it_was_seen_and_what_it_runs(self, store: Store, clock: ManualClock) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY, active=4))
        await clock.advance(9)
        beaten = await beat(store, "w", active=3)
        (worker,) = await store.fleet.workers()
        assert beaten == worker
        assert (worker.seen_ms, worker.seen_ms - worker.started_ms, worker.active) == (await store.now_ms(), 9, 3)
        await beat(store, "w")
        assert [worker.active for worker in await store.fleet.workers()] == [0]
        assert await beat(store, "nobody") is None

    async def test_an_instruction_is_learnt_at_the_next_beat(self, store: Store) -> None:
        for name in ("v", "w"):
            await store.fleet.register(WorkerRecord(id=name, identity=IDENTITY))
        assert await store.fleet.instruct("w", "quiet")
        assert await store.fleet.instruct("w", "stop")
        assert [worker.instruction for worker in await store.fleet.workers()] == [None, "stop"]
        for _ in range(2):
            beaten = await beat(store, "w")
            assert beaten is not None
            assert beaten.instruction == "stop"
        assert await store.fleet.instruct("w", None)
        beaten = await beat(store, "w")
        assert beaten is not None
        assert beaten.instruction is None
        assert not await store.fleet.instruct("nobody", "stop")

    async def test_a_new_start_has_no_instruction(self, store: Store) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
        await store.fleet.instruct("w", "recycle")
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY, instruction="quiet"))
        assert [worker.instruction for worker in await store.fleet.workers()] == [None]

    async def test_a_beat_says_how_its_pools_are(self, store: Store) -> None:
        child = ChildReport(slot=1, pid=8, state="busy", calls=4, method="résumé", memory_bytes=2**40, last_exit="x")
        pools = (
            PoolReport(name="bilder-ü", state="running", size=2, ready=2, calls=2**50, children=(child,), unlisted=1),
            PoolReport(name="cpu", state="failed", size=1, reason='it said "no"'),
        )
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY, pools=pools))
        assert [worker.pools for worker in await store.fleet.workers()] == [()]
        answer = await pulse(store, worker="w", pools=pools)
        (worker,) = await store.fleet.workers()
        assert (worker.pools, answer.worker) == (pools, worker)
        await pulse(store, worker="w", pools=pools[:1])
        assert [worker.pools for worker in await store.fleet.workers()] == [pools[:1]]
        await pulse(store, worker="w")
        assert [worker.pools for worker in await store.fleet.workers()] == [()]

    async def test_orders_are_learnt_at_each_beat_until_they_are_obeyed(self, store: Store) -> None:
        for name in ("v", "w"):
            await store.fleet.register(WorkerRecord(id=name, identity=IDENTITY))
        scale, recycle = order("o1", "scale", size=4), order("o2", "recycle")
        assert await store.fleet.order("w", scale)
        assert await store.fleet.order("w", recycle)
        assert await store.fleet.order("w", recycle), "a repeat"
        assert [worker.orders for worker in await store.fleet.workers()] == [(), (scale, recycle)]
        for _ in range(2):
            beaten = await beat(store, "w")
            assert beaten is not None
            assert beaten.orders == (scale, recycle)
        answer = await pulse(store, worker="w", obeyed=("o1", "nothing"))
        (_, worker) = await store.fleet.workers()
        assert (worker.orders, answer.worker) == ((recycle,), worker)
        answer = await pulse(store, worker="w", obeyed=("o2",))
        assert [worker.orders for worker in await store.fleet.workers()] == [(), ()]
        assert answer.worker is not None
        assert answer.worker.orders == ()
        assert not await store.fleet.order("nobody", scale)

    async def test_an_order_replaces_what_it_makes_senseless(self, store: Store) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
        first, other = order("o1", "scale", size=4), order("o2", "scale", pool="images", size=4)
        second, third = order("o3", "recycle"), order("o4", "scale", size=2)
        for each in (first, other, second, third):
            await store.fleet.order("w", each)
        assert [worker.orders for worker in await store.fleet.workers()] == [(other, second, third)]
        await pulse(store, worker="w", obeyed=("o1",))
        assert [worker.orders for worker in await store.fleet.workers()] == [(other, second, third)]

    async def test_a_new_start_has_no_orders(self, store: Store) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
        await store.fleet.order("w", order("o1", "recycle"))
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY, orders=(order("o2", "recycle"),)))
        assert [worker.orders for worker in await store.fleet.workers()] == [()]

    async def test_forget(self, store: Store) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
        await store.fleet.order("w", order("o", "recycle"))
        await pulse(store, worker="w", pools=(PoolReport(name="cpu", state="running", size=1),))
        assert await store.fleet.forget("w")
        assert not await store.fleet.forget("w")
        assert not await beat(store, "w")
        assert await store.fleet.workers() == []


@pytest.mark.asyncio
class TestStore:
    async def test_its_time_is_the_clocks(self, store: Store, clock: ManualClock) -> None:
        before = await store.now_ms()
        await clock.advance(250)
        assert await store.now_ms() == before + 250 == clock.now_ms()

    async def test_says_what_it_is(self, store: Store) -> None:
        assert store.app == "shop"
        assert "://" in store.url

    async def test_check_passes_and_changes_nothing(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        before = await store.jobs.find(JobQuery())
        await store.check()
        assert await store.jobs.find(JobQuery()) == before

    async def test_two_apps_do_not_meet(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        other = await opener("other", clock)
        for each in (store, other):
            assert await each.jobs.enqueue([job("a", unique_key="k")]) == [Enqueued("a", created=True)]
            await each.schedules.merge([schedule("s")])
            await each.locks.acquire("l", "me", 1_000)
            await each.keys.put_if_absent("k", each.app.encode(), 1_000)
            await each.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
            await each.queues.set_limits({"q": QueueLimits(concurrency=1, rate=Rate(2, 1_000))})
            (record,) = await each.jobs.claim(request(9, token="same"))
            await each.jobs.settle([ended(record)])
        assert [fired.kind for fired in await other.schedules.fire([fire("s", job_id="fired")])] == ["fired"]
        assert await other.locks.release("l", None)
        assert await other.fleet.forget("w")
        assert await other.jobs.cancel(["nobody"]) == ["missing"]
        assert await other.queues.set_paused("q", paused=True)
        assert await other.queues.set_paused("q", paused=False)
        await clock.advance(1)
        assert await other.jobs.prune([PruneRule(JobState.COMPLETED, age_ms=0)]) == 1
        assert ids(await store.jobs.find(JobQuery())) == "a"
        assert ids(await other.jobs.find(JobQuery())) == "fired"
        assert await claim(store) == []
        assert [record.fired for record in await store.schedules.all()] == [0]
        assert [lock.name for lock in await store.locks.held()] == ["l"]
        assert await store.keys.get("k") == b"shop"
        assert await other.keys.get("k") == b"other"
        assert [worker.id for worker in await store.fleet.workers()] == ["w"]
        assert (await store.jobs.counts())["q"].completed == 1
        await other.jobs.settle([ended(record) for record in await claim(other)])
        await store.jobs.enqueue(jobs("mine"))
        assert await other.jobs.purge("q", list(JobState)) == 1
        assert await other.jobs.delete(["mine"]) == [False]
        assert ids(await claim(store)) == "mine"
        await other.close()
