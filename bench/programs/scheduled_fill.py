"""Brings BENCH_SIZE schedules into a new store, and makes a scheduler ready for them. Prints how long that took, from
before the store is opened to when the scheduler has fired what is due and waits, how much of it was processor time, and
the most memory there was.

The mix of the first 10,000, by thousands: 5 every second, 45 every ten seconds, 150 every minute and 200 every five,
each at an instant of its own; 2 at every full minute; 398 hourly or daily by cron at a minute and second of their own
in five time zones, a quarter of them with a jitter of five minutes; and 200 that are due in years. That is 130 slots a
second. All further ones are of the last two kinds."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from collections.abc import Iterator

from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import At, CronTiming, Every, Timing
from workfleet.schedules.scheduler import Scheduler, anchored
from workfleet.stores.open import open_store

_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
_FAR_MS = 4_102_444_800_000  # 2100-01-01T00:00Z


def timing(number: int) -> tuple[Timing, int]:
    """When the schedule of a number is due, and its jitter."""
    group, part = number % 1_000, number // 1_000
    if number >= 10_000:
        group = 402 + number % 598
    for share, every_ms in ((5, 1_000), (50, 10_000), (200, 60_000), (400, 300_000)):
        if group < share:
            return Every(every_ms, (number * 7_919) % every_ms), 0
    if group < 402:
        return CronTiming("* * * * *"), 0
    if group < 800:
        second, minute, hour = number % 60, (number * 7) % 60, "*" if group % 2 else str(number % 24)
        jitter_ms = 300_000 if part % 4 == 0 else 0
        return CronTiming(f"{second} {minute} {hour} * * *", timezone=_ZONES[number % 5]), jitter_ms
    return At(_FAR_MS + number), 0


def records(count: int, now_ms: int) -> Iterator[ScheduleRecord]:
    """The schedules, made one after the other, as those are that are added at run time."""
    for number in range(count):
        when, jitter_ms = timing(number)
        payload = f'{{"tenant":{number},"jittered":{"true" if jitter_ms else "false"}}}'
        yield anchored(
            ScheduleRecord(
                name=f"tenant-{number}:report",
                timing=when,
                fingerprint=f"f{number}",
                job=JobRecord(id="", queue="bench", name="tick", payload=payload.encode()),
                facts={"target": "queue"},
                jitter_ms=jitter_ms,
                overlap="allow",
                from_code=False,
            ),
            now_ms,
        )


async def main() -> None:
    begun, busy_s = time.perf_counter(), time.process_time()
    clock = SystemClock()
    store = await open_store(os.environ["WORKER_STORE"], app="bench", clock=clock, create=True)
    await store.schedules.merge(records(int(os.environ["BENCH_SIZE"]), await store.now_ms()))
    scheduler = Scheduler(
        store.schedules,
        app="bench",
        now_ms=store.now_ms,
        poll_ms=10_000,
        clock=clock,
        publish=lambda _: None,
        wake=lambda: None,
    )
    while await scheduler.fire_due() == 0:
        pass
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - busy_s
    await store.close()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "peak_mb": peak_kib / 1024}))


if __name__ == "__main__":
    asyncio.run(main())
