"""What the store says of queues, schedules, workers and locks becomes gauges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.observe.manual_clock import ManualClock
from workfleet.app.fleet_facts import MOST_SCHEDULES, FleetFactsReader
from workfleet.errors import StoreUnavailable
from workfleet.events import Event, StoreTrouble
from workfleet.model.fleet import ProcessIdentity, WorkerRecord
from workfleet.model.handout import Hold
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.observe.metrics.exposition import exposition
from workfleet.observe.metrics.fleet import FleetCollector
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.ports.metrics import FleetFacts, QueueFacts, ScheduleFacts
from workfleet.settings.sections import MetricsCollection
from workfleet.stores.open import open_store


class Fleet:
    """A fleet that a collector looks at."""

    def __init__(self) -> None:
        self.facts: FleetFacts | None = FleetFacts()
        self.clock, self.registry = ManualClock(), MetricsRegistry()
        self.told: list[Event] = []
        self.collector = FleetCollector(self.registry, self.read, self.clock, self.told.append)

    async def read(self) -> FleetFacts:
        if self.facts is None:
            raise StoreUnavailable("redis", "gone")
        return self.facts

    def values(self) -> dict[str, float]:
        return {
            f"{each.name.removeprefix('workfleet_')} {' '.join(value for _, value in each.labels)}".strip(): each.value
            for each in self.registry.snapshot()
        }


MEDIA = QueueFacts(name="media", jobs={"waiting": 3, "failed": 1}, oldest_age_ms=1_500, paused=True)
NIGHTLY = ScheduleFacts(name="nightly", overdue_ms=90_000, last_fired_ms=1_000, next_slot_ms=86_400_000)


async def test_facts_become_gauges_and_what_is_gone_has_none() -> None:
    fleet = Fleet()
    fleet.facts = FleetFacts(queues=(MEDIA,), schedules=(NIGHTLY,), workers=4, locks_held=2)
    await fleet.collector.collect()
    assert fleet.values() == {
        "queue_jobs media waiting": 3,
        "queue_jobs media failed": 1,
        "queue_oldest_job_age_seconds media": 1.5,
        "queue_paused media": 1,
        "schedule_overdue_seconds nightly": 90,
        "schedule_last_fire_timestamp_seconds nightly": 1,
        "schedule_next_slot_timestamp_seconds nightly": 86_400,
        "workers": 4,
        "locks_held": 2,
    }
    fleet.facts = FleetFacts(schedules=(ScheduleFacts(name="nightly"),), workers=0, locks_held=0)
    await fleet.collector.collect()
    assert fleet.values() == {"schedule_overdue_seconds nightly": 0, "workers": 0, "locks_held": 0}
    fleet.facts = FleetFacts()
    await fleet.collector.collect()
    assert fleet.values() == {}


async def test_it_looks_at_its_interval_and_survives_an_outage() -> None:
    fleet = Fleet()
    fleet.facts = None
    serving = asyncio.create_task(fleet.collector.serve())
    assert await fleet.clock.somebody_sleeps() == 60
    fleet.clock.pass_time(60)
    assert await fleet.clock.somebody_sleeps() == 60
    assert fleet.told == [StoreTrouble(what="measuring queues and schedules", error="store redis: gone")]
    fleet.facts = FleetFacts(workers=1)
    fleet.clock.pass_time(60)
    assert await fleet.clock.somebody_sleeps() == 60
    assert fleet.values() == {"workers": 1}
    fleet.facts = None
    fleet.clock.pass_time(60)
    assert await fleet.clock.somebody_sleeps() == 60
    assert len(fleet.told) == 2, "a new outage is told anew"
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_what_the_store_said_last_goes_away_when_it_is_silent_for_two_intervals_and_comes_back() -> None:
    fleet = Fleet()
    fleet.registry.gauge("workfleet_process_threads", 3, labels={})
    fleet.facts = FleetFacts(queues=(MEDIA,), schedules=(NIGHTLY,), workers=4, locks_held=2)
    serving = asyncio.create_task(fleet.collector.serve())
    await fleet.clock.somebody_sleeps()
    well = fleet.values()
    assert well["workers"] == 4
    fleet.facts = None
    fleet.clock.pass_time(60)
    assert await fleet.clock.somebody_sleeps() == 60
    fleet.clock.pass_time(59)
    assert fleet.values() == well, "one look that fails is no outage"
    fleet.clock.pass_time(1)
    assert fleet.values() == {"process_threads": 3}
    assert exposition(fleet.registry.snapshot()).count("# TYPE") == 1
    assert {row.name for row in fleet.registry.drain(1)} >= {"workfleet_workers", "workfleet_queue_jobs"}, (
        "what was measured before is kept in the metric store, whenever that is written"
    )
    assert fleet.registry.drain(2) == []
    fleet.facts = FleetFacts(workers=1)
    fleet.clock.pass_time(60)
    await fleet.clock.somebody_sleeps()
    assert fleet.values() == {"process_threads": 3, "workers": 1}
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_a_store_that_hangs_is_as_silent_as_one_that_fails() -> None:
    fleet = Fleet()
    fleet.facts = FleetFacts(workers=1)
    await fleet.collector.collect()
    asked, hung = asyncio.Event(), asyncio.Event()

    async def hang() -> FleetFacts:
        asked.set()
        await hung.wait()
        return FleetFacts(workers=2)

    fleet.collector._read = hang
    serving = asyncio.create_task(fleet.collector.serve())
    await asked.wait()
    fleet.clock.pass_time(119)
    assert fleet.values() == {"workers": 1}
    fleet.clock.pass_time(1)
    assert fleet.values() == {}
    hung.set()
    await fleet.clock.somebody_sleeps()
    assert fleet.values() == {"workers": 2}
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


# What the store is asked


def schedule(name: str, **rest: Any) -> ScheduleRecord:
    job = JobRecord(id="", queue="q", name=name)
    return ScheduleRecord(name=name, timing=Every(60_000), fingerprint="f", job=job, **rest)


async def test_the_reader_asks_the_store() -> None:
    clock = ManualClock()
    store = await open_store("memory://", app="shop", clock=clock, create=True)
    now = await store.now_ms()
    await store.jobs.enqueue(
        [
            JobRecord(id="a", queue="media", name="thumb"),
            JobRecord(id="b", queue="media", name="thumb", delay_ms=60_000),
            JobRecord(id="h", queue="media", name="beat", housekeeping=True),
        ]
    )
    await store.queues.set_paused("media", paused=True)
    await store.locks.acquire("ledger", "me", 60_000)
    for each in (
        schedule("late", next_due_ms=now - 30_000, last_fired_ms=now - 90_000),
        schedule("soon", next_due_ms=now + 30_000),
        schedule("paused", next_due_ms=now - 30_000, paused=True),
        schedule("off", next_due_ms=now - 30_000, enabled=False),
    ):
        await store.schedules.put(each, replace=True)
    await store.fleet.register(WorkerRecord(id="w", identity=ProcessIdentity("h", "b", 1, "s")))
    clock.pass_time(5)
    facts = await reader(store, clock).read()
    (media,) = facts.queues
    assert (media.name, media.oldest_age_ms, media.paused) == ("media", 5_000, True)
    assert {state: count for state, count in media.jobs.items() if count} == {"waiting": 1, "delayed": 1}
    assert set(media.jobs) == {
        "waiting", "prioritized", "delayed", "active", "completed", "failed", "waiting-children",
    }  # fmt: skip
    overdue = {each.name: (each.overdue_ms, each.last_fired_ms) for each in facts.schedules}
    assert overdue == {"late": (35_000, now - 90_000), "soon": (0, None), "paused": (0, None)}
    assert (facts.workers, facts.locks_held) == (1, 1)
    clock.pass_time(60)
    await store.fleet.register(WorkerRecord(id="x", identity=ProcessIdentity("h", "b", 2, "s")))
    assert (await reader(store, clock).read()).workers == 1, "the other one was not seen for a minute"
    only = await reader(store, clock, queues=False, schedules=False).read()
    assert only == FleetFacts(locks_held=0)
    only = await reader(store, clock, queues=False, locks=False).read()
    assert (len(only.schedules), only.queues, only.workers, only.locks_held) == (3, (), None, None)
    await store.close()


async def test_a_schedule_that_waits_for_the_end_of_its_run_is_not_overdue() -> None:
    clock = ManualClock()
    store = await open_store("memory://", app="shop", clock=clock, create=True)
    slot = await store.now_ms()
    await store.schedules.put(schedule("behind", next_due_ms=slot), replace=True)
    await store.schedules.hold([Hold("behind", slot, slot + 90_000)])
    seen = []
    for _ in range(2):
        clock.pass_time(60)
        seen += [each.overdue_ms for each in (await reader(store, clock).read()).schedules]
    assert seen == [0, 120_000], "when nobody holds it any more, it should have fired at its slot"
    await store.close()


async def test_an_idle_fleet_is_asked_little() -> None:
    clock = ManualClock()
    store = await open_store("memory://", app="shop", clock=clock, create=True)
    asked: list[str] = []
    for part, call in (
        (store, "now_ms"), (store.jobs, "counts"), (store.queues, "all"), (store.fleet, "workers"),
        (store.locks, "held"), (store.schedules, "page"),
    ):  # fmt: skip
        setattr(part, call, listening(asked, call, getattr(part, call)))
    watching = reader(store, clock)
    await watching.read()
    assert sorted(asked) == ["all", "counts", "held", "now_ms", "page", "workers"]
    seen = []
    for _ in range(8):
        asked.clear()
        await watching.read()
        seen.append(sorted(asked))
    seldom = [{"counts", "now_ms"}, {"all", "counts"}, {"counts", "workers"}, {"counts", "held"}]
    assert [set(each) for each in seen[::2]] == seldom
    assert seen[1::2] == [["counts", "page"]] * 4
    await store.close()


def listening(asked: list[str], name: str, call: Any) -> Any:
    async def called(*arguments: Any, **options: Any) -> Any:
        asked.append(name)
        return await call(*arguments, **options)

    return called


def reader(store: Any, clock: ManualClock, **collection: bool) -> FleetFactsReader:
    return FleetFactsReader(store, MetricsCollection(**collection), clock)


async def test_what_was_read_before_is_told_until_it_is_read_again() -> None:
    clock = ManualClock()
    store = await open_store("memory://", app="shop", clock=clock, create=True)
    await store.locks.acquire("ledger", "me", 600_000)
    await store.schedules.put(schedule("late", next_due_ms=await store.now_ms() - 1_000), replace=True)
    watching = reader(store, clock)
    first = await watching.read()
    for _ in range(3):
        assert await watching.read() == first
    await store.close()


async def test_after_an_outage_everything_is_asked_anew() -> None:
    clock = ManualClock()
    store = await open_store("memory://", app="shop", clock=clock, create=True)
    watching = reader(store, clock)
    first = await watching.read()
    assert (first.workers, first.locks_held) == (0, 0)
    counts = store.jobs.counts

    async def fails(**_: Any) -> Any:
        raise StoreUnavailable("test", "gone")

    store.jobs.counts = fails  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await watching.read()
    store.jobs.counts = counts  # type: ignore[method-assign]
    await store.fleet.register(WorkerRecord(id="w", identity=ProcessIdentity("h", "b", 1, "s")))
    await store.locks.acquire("ledger", "me", 600_000)
    after = await watching.read()
    assert (after.workers, after.locks_held) == (1, 1)
    await store.close()


async def test_very_many_schedules_are_not_all_read() -> None:
    store = await open_store("memory://", app="shop", clock=ManualClock(), create=True)
    for number in range(MOST_SCHEDULES + 50):
        await store.schedules.put(schedule(f"s{number}", next_due_ms=1), replace=True)
    assert len((await reader(store, ManualClock()).read()).schedules) == MOST_SCHEDULES
    await store.close()
