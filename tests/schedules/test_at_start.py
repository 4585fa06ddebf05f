"""Schedules that are each process's own, and runs at a start: once per process, once per release."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.schedules.rig import DAY, NOON, SECOND, Process, record, turns
from workfleet.events import JobEnqueued
from workfleet.model.timing import Every
from workfleet.schedules.at_start import run_per_release
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock


async def test_once_per_process() -> None:
    process = await Process.on_memory()
    records = [
        record("shared"),
        record("own", facts={"scope": "process"}),
        record("delayed", facts={"start_delay_ms": "5000"}),
    ]
    assert await process.start(records, worker="w1") == 3
    assert await process.start(records, worker="w1") == 0  # a repeat after a lost reply
    assert await process.start(records, worker="w2") == 1  # the shared ones overlap
    jobs = await process.jobs()
    assert sorted(event.id for event in process.told(JobEnqueued)) == sorted(job.id for job in jobs)
    assert sorted((job.schedule, job.metadata["worker"]) for job in jobs) == [
        ("delayed", "w1"), ("own", "w1"), ("own", "w2"), ("shared", "w1")
    ]  # fmt: skip
    assert {job.schedule: job.due_ms - NOON for job in jobs} == {"delayed": 5_000, "own": 0, "shared": 0}
    assert {job.slot_ms for job in jobs} == {None}


async def test_a_start_delay_is_no_wait_that_expires_a_run() -> None:
    process = await Process.on_memory()
    delayed = record("delayed", facts={"start_delay_ms": "5000"})
    delayed.job.expires_after_ms = 3_000
    assert await process.start([delayed], worker="w1") == 1
    (job,) = await process.jobs()
    assert (job.due_ms, job.expires_ms) == (NOON + 5_000, NOON + 8_000)


async def test_overlap_allowed_shares_no_key_among_processes_and_schedules() -> None:
    process = await Process.on_memory()
    records = [record(name, facts={"scope": "process"}, overlap="allow") for name in ("a", "b")]
    assert await process.start(records, worker="w1") == 2
    assert await process.start(records, worker="w2") == 2


async def test_once_per_release_in_the_fleet() -> None:
    process = await Process.on_memory()
    store = process.store

    async def start(release: str) -> int:
        return await run_per_release([record()], store.jobs, store.keys, release=release, publish=process.events.append)

    assert [await start("1.0"), await start("1.0")] == [1, 0]
    await process.run_all()
    assert await start("1.0") == 0
    assert await start("1.1") == 1
    assert await start("1.2") == 0  # the run of 1.1 is not finished…
    await process.run_all()
    assert await start("1.2") == 1  # …and the next start makes up for it
    process.at(NOON + 300 * DAY)
    assert await start("1.2") == 0  # remembered although the job may have been pruned
    assert [(event.name, event.created) for event in process.told(JobEnqueued)] == [("s", True)] * 3


# Schedules of one process


async def test_a_process_schedule_makes_a_job_each_slot() -> None:
    process = await Process.on_memory(NOON + SECOND)
    beat = record("beat", Every(30 * SECOND))
    local = process.local([beat])
    serving = asyncio.create_task(local.serve())
    for _ in range(6):
        await turns()
        process.at(process.clock.now_ms() + 15 * SECOND)
        await turns()
        await process.run_all()
    serving.cancel()
    jobs = await process.jobs()
    assert [(job.slot_ms or 0) - NOON for job in jobs] == [30 * SECOND, 60 * SECOND, 90 * SECOND]
    assert {job.metadata["worker"] for job in jobs} == {"w1"}
    assert [event.id for event in process.told(JobEnqueued)] == [job.id for job in jobs]
    assert await process.store.schedules.all() == []


async def test_a_clock_set_back_by_a_year_does_not_silence_a_process() -> None:
    class Settable(TestClock):
        offset_ms = 0

        def now_ms(self) -> int:
            return super().now_ms() + self.offset_ms

    clock = Settable(NOON)
    process = Process(await open_store("memory://", app="shop", clock=clock, create=True), clock)
    local = process.local([record("beat", Every(30 * SECOND))])
    serving = asyncio.create_task(local.serve())
    await turns()
    clock.offset_ms = -366 * DAY
    for _ in range(3):
        clock.move_to(TestClock.now_ms(clock) + 30 * SECOND)
        await turns()
        await process.run_all()
    serving.cancel()
    assert len(await process.jobs()) == 2  # the first wake finds the clock set back, then all is as before


async def test_an_outage_leaves_out_a_slot_of_a_process_schedule() -> None:
    process = await Process.on_memory()
    down = True

    class Jobs:
        async def enqueue(self, jobs: Any) -> Any:
            if down:
                from workfleet.errors import StoreUnavailable

                raise StoreUnavailable("test", "it is down")
            return await process.store.jobs.enqueue(jobs)

    beat = record("beat", Every(30 * SECOND))
    local = process.local([beat], Jobs())
    serving = asyncio.create_task(local.serve())
    await turns()
    process.at(NOON + 30 * SECOND)
    await turns()
    down = False
    process.at(NOON + 60 * SECOND)
    await turns()
    serving.cancel()
    assert [(job.slot_ms or 0) - NOON for job in await process.jobs()] == [60 * SECOND]
    assert len(process.told(JobEnqueued)) == 1


async def test_housekeeping_of_a_process_is_told_to_nobody() -> None:
    process = await Process.on_memory()
    beat = record("beat")
    beat.job.housekeeping = True
    assert await process.start([beat], worker="w1") == 1
    assert process.told(JobEnqueued) == []


# Changes that another process made
