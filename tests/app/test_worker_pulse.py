"""The worker's pulse: what it says of the store, what it brings back, and what the worker makes of that."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from tests.supervision.fakes import Published, SteppingClock
from workfleet.app.health import StoreProbe
from workfleet.app.pool_orders import PoolOrders
from workfleet.app.pulse import WorkerPulse
from workfleet.clock import SystemClock
from workfleet.errors import UsageError
from workfleet.events import PoolOrdered, PoolOrderRefused, WorkerInstructed
from workfleet.model.fleet import Instruction, PoolOrder, ProcessIdentity, WorkerRecord
from workfleet.model.jobs import JobRecord
from workfleet.pools.options import PoolOptions
from workfleet.pools.stats import ChildStats, LastExit, PoolStats
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing import FaultyStore


class Hands(SystemClock):
    """A clock whose monotonic time is set by hand."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


class Exchange:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.active, self.said = 3, list[str]()

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")

    def wake(self) -> None:
        self.said.append("wake")


class Pools:
    """Two pools, of which one is at work; notes what it is told."""

    def __init__(self) -> None:
        self.size, self.said = 2, list[str]()

    def stats(self) -> dict[str, PoolStats]:
        exit_ = LastExit(pid=4, how="signal SIGKILL", why="it was too large", at_ms=1, peak_bytes=None)
        child = ChildStats(
            slot=0, pid=5, state="busy", calls=6, method="resize", started_ms=1, age_ms=7, memory_bytes=8,
            restarts=1, last_exit=exit_,
        )  # fmt: skip
        facts = {
            "ready": 2,
            "busy": 1,
            "queued": 3,
            "calls": 6,
            "failures": 1,
            "restarts": 1,
            "pids": (5,),
            "cpu_by": "cgroup",
        }
        images = PoolStats(name="images", state="running", size=self.size, children=(child,) * 40, **facts)  # type: ignore[arg-type]
        return {"images": images}

    def get(self, name: str) -> Any:
        return SimpleNamespace(options=PoolOptions(name=name, size=2, isolation="thread", cpu_cores=0.5))

    async def scale(self, which: str, size: int) -> None:
        if size > 100:
            raise UsageError("too many")
        self.said.append(f"{which} {size}")
        self.size = size

    async def recycle(self, which: str) -> None:
        self.said.append(which)


class Beating:
    """A pulse every ten seconds, on a clock that only it moves, or on one that a test sets."""

    def __init__(self, hands: Hands | None = None) -> None:
        self.clock = SteppingClock()
        clock = hands or self.clock
        self.store = FaultyStore(MemoryStore("test", clock), clock=clock)
        self.record = WorkerRecord(id="w", identity=ProcessIdentity("host", "boot", 1, "1"), queues=("q",))
        self.exchange, self.pools, self.published = Exchange(), Pools(), Published()
        self.then: list[Instruction | None] = []
        self.restored: list[list[str]] = []
        self.probe = StoreProbe(clock, lease_ms=30_000)
        self.pulse = WorkerPulse(
            self.store,
            self.record,
            self.exchange,  # type: ignore[arg-type]
            self.probe,
            self.then.append,
            self.restore,
            PoolOrders(self.pools, self.published.append),  # type: ignore[arg-type]
            poll_ms=10_000,
            clock=clock,
            publish=self.published.append,
        )

    async def restore(self) -> None:
        self.restored.append([record.id for record in await self.store.fleet.workers()])

    @property
    def pulses(self) -> int:
        return self.store.calls.count("pulse")

    async def run(self, seconds: float) -> None:
        await self.clock.run(self.pulse, seconds)

    async def told(self, instruction: Instruction | None) -> None:
        assert await self.store.fleet.instruct("w", instruction)
        await self.run(15)


async def test_it_is_one_call_a_poll_that_makes_a_round_trip_and_beats() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    beating.store.calls.clear()
    await beating.run(35)
    assert beating.store.calls == ["pulse"] * 4
    (record,) = await beating.store.fleet.workers()
    assert (record.active, record.seen_ms - record.started_ms) == (3, 30_000)
    counts = await beating.store.jobs.counts()
    assert (counts["test-health"].completed, len(counts)) == (4, 1)
    assert beating.probe.ok_at_ms == 1_030_000
    assert (beating.exchange.said, beating.then, beating.published) == ([], [], [])


async def test_each_change_of_the_instruction_is_heard_once() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    for instruction in ("quiet", None, "quiet", "stop"):
        await beating.told(instruction)
    assert beating.exchange.said == ["pause", "resume", "pause", "pause"]
    assert beating.then == ["quiet", None, "quiet", "stop"]
    told = [(event.worker, event.instruction) for event in beating.published.of(WorkerInstructed)]
    assert told == [("w", "quiet"), ("w", "work"), ("w", "quiet"), ("w", "stop")]


async def test_a_record_that_was_deleted_is_registered_again_without_an_instruction() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    await beating.told("quiet")
    await beating.store.fleet.forget("w")
    beating.store.fail("fleet.register", number=2)
    await beating.run(5)
    assert await beating.store.fleet.workers() == []
    assert beating.exchange.said == ["pause"]
    await beating.run(5)
    assert [(record.id, record.instruction) for record in await beating.store.fleet.workers()] == [("w", None)]
    assert beating.exchange.said == ["pause", "resume"]


async def test_a_store_without_any_worker_has_lost_everything_and_is_restored_first() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    await beating.store.fleet.register(structs.replace(beating.record, id="other"))
    await beating.store.fleet.forget("w")
    await beating.run(5)
    assert beating.restored == []  # only our record is gone
    for name in ("w", "other"):
        await beating.store.fleet.forget(name)
    await beating.run(10)
    assert beating.restored == [[]]
    await beating.run(20)
    assert beating.restored == [[]]


async def test_a_store_that_is_down_changes_nothing_and_is_asked_every_second() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    await beating.told("quiet")
    before = beating.pulses
    for number in range(1, 6):
        beating.store.fail("pulse", number=before + number)
    await beating.run(4.5)
    assert beating.pulses - before == 5
    assert beating.probe.error is not None
    assert "the call was not carried out" in beating.probe.error
    # The exchange is told once, and tells of the outage.
    assert (beating.exchange.said, beating.then) == (["pause", "wake"], ["quiet"])
    await beating.run(12)
    assert beating.pulses - before == 7
    assert beating.probe.error is None
    assert (beating.exchange.said, beating.then) == (["pause", "wake"], ["quiet"])


async def test_a_poll_of_minutes_leaves_no_one_without_a_sign_of_life_for_so_long() -> None:
    beating = Beating()
    slow = WorkerPulse(
        beating.store,
        beating.record,
        beating.exchange,  # type: ignore[arg-type]
        beating.probe,
        beating.then.append,
        beating.restore,
        PoolOrders(beating.pools, beating.published.append),  # type: ignore[arg-type]
        poll_ms=300_000,
        clock=beating.clock,
        publish=beating.published.append,
    )
    await beating.clock.run(slow, 25)
    assert beating.pulses == 3


async def test_who_waits_hears_of_what_no_notification_told() -> None:
    beating = Beating()
    await beating.pulse.once()
    store = beating.store
    await store.jobs.enqueue([job_of("q", "a"), job_of("other", "b")])
    await store.schedules.wait(0)
    for queue in ("q", "other"):
        assert await store.jobs.wait([queue], 0)  # the notifications; from here on they are lost
    await beating.pulse.once()
    assert [await store.jobs.wait([queue], 0) for queue in ("q", "other")] == [True, False]


def job_of(queue: str, job_id: str) -> JobRecord:
    return JobRecord(id=job_id, queue=queue, name="work")


# The store's health


async def test_it_is_steady_again_a_while_after_trouble() -> None:
    clock = Hands()
    beating = Beating(clock)
    probe = beating.probe
    await beating.pulse.once()
    assert (probe.steady, probe.error) == (True, None)  # nobody has waited for the store yet
    beating.store.fail("pulse", number=2)
    await beating.pulse.once()
    assert not probe.steady
    assert probe.error is not None
    clock.at += 4
    await beating.pulse.once()
    assert probe.steady  # too short to have cost a lease
    beating.store.fail("pulse", number=4)
    await beating.pulse.once()
    clock.at += 6
    await beating.pulse.once()
    clock.at += 7.9
    await beating.pulse.once()
    assert (probe.steady, probe.error) == (False, None)
    clock.at += 0.2
    assert probe.steady


async def test_a_slow_answer_is_trouble_too() -> None:
    clock = Hands()
    probe = StoreProbe(clock, lease_ms=30_000)

    async def slow() -> str:
        clock.at += 6
        return "answer"

    assert await probe.examine(slow) == "answer"
    assert (probe.steady, probe.error) == (False, None)
    clock.at += 8
    assert probe.steady


async def test_no_answer_within_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workfleet.app.health._PROBE_LIMIT_S", 0.01)
    probe = StoreProbe(SystemClock(), lease_ms=30_000)
    assert await probe.examine(asyncio.Event().wait) is None
    assert (probe.error, probe.ok_at_ms, probe.steady) == ("no answer within 0.01 s", None, False)


async def test_each_beat_says_how_the_pools_are() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    await beating.run(1)
    ((report,),) = [worker.pools for worker in await beating.store.fleet.workers()]
    assert (report.name, report.state, report.isolation, report.size) == ("images", "running", "thread", 2)
    assert (report.ready, report.busy, report.queued, report.calls, report.failures, report.restarts) == (
        2,
        1,
        3,
        6,
        1,
        1,
    )
    assert report.cpu == "0.5 cores by cgroup"
    assert (len(report.children), report.unlisted) == (32, 8), "a record stays small"
    child = report.children[0]
    assert (child.slot, child.pid, child.state, child.calls, child.method) == (0, 5, "busy", 6, "resize")
    assert (child.age_ms, child.memory_bytes, child.cpu_percent, child.restarts) == (7, 8, None, 1)
    assert child.last_exit == "signal SIGKILL: it was too large"


async def test_an_order_is_carried_out_once_and_what_came_of_it_is_told_at_once() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    scale, recycle = (
        PoolOrder(id="1", pool="images", verb="scale", size=5),
        PoolOrder(id="2", pool="cpu", verb="recycle"),
    )
    for order in (scale, recycle):
        await beating.store.fleet.order("w", order)
    beating.store.calls.clear()
    await beating.run(5)
    assert beating.pools.said == ["images 5", "cpu"]
    assert beating.store.calls == ["pulse"] * 2
    (record,) = await beating.store.fleet.workers()
    assert (record.orders, [pool.size for pool in record.pools]) == ((), [5])
    assert beating.published == [
        PoolOrdered(pool="images", order="scale to 5"),
        PoolOrdered(pool="cpu", order="recycle"),
    ]
    # Its sender has had no answer, and says it again.
    await beating.run(15)
    await beating.store.fleet.order("w", scale)
    await beating.run(30)
    assert beating.pools.said == ["images 5", "cpu"]
    assert [worker.orders for worker in await beating.store.fleet.workers()] == [()]


async def test_an_order_that_cannot_be_carried_out_is_told_and_done_with() -> None:
    beating = Beating()
    await beating.store.fleet.register(beating.record)
    await beating.store.fleet.order("w", PoolOrder(id="1", pool="images", verb="scale", size=101))
    await beating.run(25)
    assert beating.published == [PoolOrderRefused(pool="images", order="scale to 101", reason="too many")]
    assert [worker.orders for worker in await beating.store.fleet.workers()] == [()]
