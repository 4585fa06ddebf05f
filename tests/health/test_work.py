"""Queues and schedules: what of the fleet's work does not go on, and how seldom the store is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.observe.manual_clock import ManualClock
from workfleet.app.fleet_look import FleetLook
from workfleet.app.queue_counts import QueueCounts
from workfleet.errors import StoreUnavailable
from workfleet.health.work import Ages, QueuesIndicator, SchedulesIndicator
from workfleet.model.handout import Hold
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every
from workfleet.stores.memory.store import MemoryStore

MINUTE, HOUR = 60_000, 3_600_000


def reading(values: Mapping[str, int]) -> Any:
    async def read() -> Mapping[str, int]:
        return values

    return read


@pytest.mark.parametrize(
    ("ages", "own", "status", "reason"),
    [
        ({}, {}, "healthy", ""),
        ({"mail": 10 * MINUTE - 1}, {}, "healthy", ""),
        ({"mail": 10 * MINUTE}, {}, "degraded", "mail: a job waits for 10m"),
        ({"mail": HOUR, "photos": 2 * HOUR}, {}, "unhealthy",
         "photos: a job waits for 2h; mail: a job waits for 1h"),
        ({"mail": 30_000, "photos": 2 * HOUR}, {"mail": (10_000, 20_000), "photos": (None, None)}, "unhealthy",
         "mail: a job waits for 30s"),
        ({"mail": 30_000}, {"mail": (10_000, None)}, "degraded", "mail: a job waits for 30s"),
    ],
)  # fmt: skip
async def test_the_oldest_job_of_a_queue(ages: dict[str, int], own: dict[str, Ages], status: str, reason: str) -> None:
    said = await QueuesIndicator(reading(ages), own=own).check()
    assert (said.status, said.reason) == (status, reason)
    assert said.facts == {"queues": len(ages), "oldest_ms": max(ages.values(), default=0)}


@pytest.mark.parametrize(
    ("late", "status", "reason", "overdue"),
    [
        ({}, "healthy", "", 0),
        ({"report": MINUTE - 1}, "healthy", "", 0),
        ({"report": MINUTE, "feed": 10 * MINUTE}, "unhealthy", "feed is overdue by 10m; report is overdue by 1m", 2),
        ({f"s{n}": MINUTE + n * 1_000 for n in range(6)}, "degraded",
         "s5 is overdue by 1m5s; s4 is overdue by 1m4s; s3 is overdue by 1m3s; and 3 more", 6),
    ],
)  # fmt: skip
async def test_schedules_that_should_have_fired(late: dict[str, int], status: str, reason: str, overdue: int) -> None:
    said = await SchedulesIndicator(reading(late)).check()
    assert (said.status, said.reason, said.facts["overdue"]) == (status, reason, overdue)


async def test_thresholds_are_options() -> None:
    assert (await QueuesIndicator(reading({"mail": 5}), usual=(5, None)).check()).status == "degraded"
    assert (await SchedulesIndicator(reading({"feed": 5}), ages=(1, 5)).check()).status == "unhealthy"


# What the store says


class House:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.memory = MemoryStore("shop", self.clock)
        self.counts = QueueCounts(self.opened, self.clock)
        self.look = FleetLook(self.opened, self.counts, self.clock, interval_ms=MINUTE, within_ms=200)

    async def opened(self) -> Any:
        return self.memory

    async def enqueue(self, queue: str) -> None:
        await self.memory.jobs.enqueue([JobRecord(id=f"{queue}-{self.clock.now_ms()}", queue=queue, name="n")])

    async def schedule(self, name: str, **changes: Any) -> None:
        now = self.clock.now_ms()
        record = ScheduleRecord(
            name=name, timing=Every(MINUTE), fingerprint="f", job=JobRecord(id="", queue="q", name=name),
            next_due_ms=now, **changes,
        )  # fmt: skip
        await self.memory.schedules.put(record, replace=True)

    def later(self, ms: int = MINUTE) -> None:
        self.clock.pass_time(ms / 1000)


async def test_a_queue_is_as_old_as_its_oldest_ready_job_and_a_paused_one_is_not_ill() -> None:
    house = House()
    assert await house.look.queues() == {}
    await house.enqueue("mail")
    await house.enqueue("photos")
    house.later()
    await house.enqueue("mail")
    assert await house.look.queues() == {"mail": MINUTE, "photos": MINUTE}
    await house.memory.queues.set_paused("photos", paused=True)
    house.later()
    assert await house.look.queues() == {"mail": 2 * MINUTE}


async def test_the_store_is_asked_once_in_the_interval() -> None:
    house = House()
    await house.enqueue("mail")
    house.later(1_000)
    assert await house.look.queues() == {"mail": 1_000}
    house.later(MINUTE - 1)
    assert await house.look.queues() == {"mail": 1_000}
    house.later(1)
    assert await house.look.queues() == {"mail": 1_000 + MINUTE}


async def test_schedules_are_overdue_from_their_slot_on_unless_they_need_not_fire() -> None:
    house = House()
    await house.schedule("feed")
    await house.schedule("off", enabled=False)
    await house.schedule("paused", paused=True)
    await house.schedule("orphaned", orphaned=True)
    await house.schedule("held")
    slot = house.clock.now_ms()
    await house.memory.schedules.hold([Hold("held", slot, slot + 2 * MINUTE)])
    assert await house.look.schedules() == {}
    house.later()
    assert await house.look.schedules() == {"feed": MINUTE}
    house.later()
    assert await house.look.schedules() == {"feed": 2 * MINUTE, "held": 2 * MINUTE}
    await house.memory.schedules.remove("feed")
    house.later()
    assert await house.look.schedules() == {"held": 3 * MINUTE}


async def test_many_schedules_take_several_looks_and_none_is_left_out() -> None:
    house = House()
    for number in range(2_500):
        await house.schedule(f"s{number:04}")
    seen: list[int] = []
    for _ in range(4):
        house.later()
        seen.append(len(await house.look.schedules()))
    assert (seen[0], seen[1:]) == (2_000, [2_500] * 3)
    for number in range(2_500):
        await house.memory.schedules.remove(f"s{number:04}")
    for _ in range(3):
        house.later()
        await house.look.schedules()
    assert await house.look.schedules() == {}


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_while_the_store_is_ill_what_was_read_last_counts(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    await house.enqueue("mail")
    house.later()
    assert await house.look.queues() == {"mail": MINUTE}

    async def counts(**_: Any) -> Any:
        if how == "hangs":
            await asyncio.Event().wait()
        raise StoreUnavailable("x", "refused")

    with monkeypatch.context() as patched:
        patched.setattr(house.memory.jobs, "counts", counts)
        house.later()
        assert await house.look.queues() == {"mail": MINUTE}
    assert await house.look.queues() == {"mail": 2 * MINUTE}


async def test_what_metrics_have_read_of_the_queues_is_not_asked_again() -> None:
    house, asked = House(), list[None]()
    counts = house.memory.jobs.counts

    async def counting(**options: Any) -> Any:
        asked.append(None)
        return await counts(**options)

    house.memory.jobs.counts = counting  # type: ignore[method-assign]
    await house.enqueue("mail")
    house.later(1_000)
    await house.counts.read()
    assert await house.look.queues() == {"mail": 1_000}
    assert len(asked) == 1
    house.later()
    assert await house.look.queues() == {"mail": 1_000 + MINUTE}
    assert len(asked) == 2


@pytest.mark.parametrize("by_ms", [HOUR, -HOUR])
async def test_a_clock_that_is_set_makes_no_job_and_no_schedule_late(by_ms: int) -> None:
    house = House()
    await house.enqueue("photos")
    assert await house.look.queues() == {"photos": 0}
    await house.memory.jobs.purge("photos", [JobState.WAITING])
    house.later()
    house.clock._now_ms += by_ms
    await house.enqueue("mail")
    await house.schedule("feed")
    assert await house.look.queues() == {"mail": 0}
    assert await house.look.schedules() == {}
    house.later()
    assert (await house.look.queues(), await house.look.schedules()) == ({"mail": MINUTE}, {"feed": MINUTE})


async def test_the_clock_of_a_store_elsewhere_is_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    await house.enqueue("mail")
    assert await house.look.queues() == {"mail": 0}
    at = house.clock.now_ms

    async def set_ahead() -> int:
        return at() + HOUR

    monkeypatch.setattr(house.memory, "now_ms", set_ahead)
    for minutes in range(1, 9):
        house.later()
        seen = await house.look.queues()
        assert seen == {"mail": minutes * MINUTE + (HOUR if minutes == 8 else 0)}
