"""A soak of schedules: processes with wrong clocks fire them while one after the other is killed, then everything is
counted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tests.soak.schedulers import Schedulers, time_to_start
from tests.soak.scheduling import APP, MISSED, instant
from tests.soak.slot_verdict import Life, Note, Verdict, at_share, judge, lateness_ms
from tests.soak.slots import Plan
from workfleet import Client, JobType
from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store
from workfleet.stores.open import is_redis, open_store

RUN = JobType("run", type(None), type(None))
SKEW_MS = 10_000
_SPARE_S = 2.0
"""The processes may take twice as long to start as they took before, and so much longer at least."""
_DRAIN_WITHIN_S = 120.0
_PAGE = 5_000


@dataclass(frozen=True)
class Result:
    """The counts of one store, how late slots were fired, and what was killed."""

    plan: Plan
    lives: Sequence[Life]
    verdict: Verdict
    late_ms: tuple[int, int, int]
    """The median, the 99th percentile, and the longest."""
    kills: int
    none_was_up: int
    """How often nobody could be killed, because all were starting."""
    problems: tuple[str, ...]


async def soak(
    folder: Path,
    url: str,
    *,
    seconds: int,
    schedules: int,
    processes: int,
    seed: int,
    skew_ms: int = SKEW_MS,
    kill_every_s: float = 1.0,
) -> Result:
    """Have `schedules` fired for `seconds`, and count. No clock passes the first slot before its process is up: the
    code's schedules count from the first start of a process on."""
    up_s = await asyncio.to_thread(time_to_start, _far_plan(folder), processes)
    start_ms = int((time.time() + max(2 * up_s, up_s + _SPARE_S)) * 1000) + skew_ms
    plan = Plan(folder, url, schedules, start_ms, start_ms + seconds * 1000)
    await add_schedules(plan)
    store = await open_store(url, app=APP, clock=SystemClock(), create=False)
    fleet = Schedulers(plan, processes, skew_ms, random.Random(seed))
    try:
        await asyncio.to_thread(fleet.wait_until_up)
        if time.time() * 1000 + skew_ms > plan.start_ms:
            raise RuntimeError(f"the processes are up too late: at first they took {up_s:.1f} s")
        await _kill(fleet, plan.end_ms / 1000, kill_every_s)
        await _drained(fleet, store, plan)
    finally:
        try:
            await asyncio.to_thread(fleet.stop)
        finally:
            await store.close()
    return await _result(plan, fleet)


def _far_plan(folder: Path) -> Plan:
    """One on a store of its own, with nothing to do: to see how long processes take to start."""
    beside = folder / "first"
    beside.mkdir()
    start_ms = int(time.time() + 3600) * 1000
    return Plan(beside, f"sqlite:///{beside / 'store.db'}", 2, start_ms, start_ms + 1000)


async def add_schedules(plan: Plan) -> None:
    """What is added at run time, by somebody whose clock is right."""
    async with Client(plan.url, app=APP) as client:
        for number in plan.added:
            await client.schedules.add(
                plan.name(number),
                RUN(None, queue=plan.queue(number)),
                every=timedelta(milliseconds=plan.every_ms),
                offset=timedelta(milliseconds=plan.offset_ms(number)),
                start=instant(plan.start_ms),
                end=instant(plan.end_ms),
                overlap="allow",
                missed=MISSED,
            )


async def _kill(fleet: Schedulers, until_s: float, every_s: float) -> None:
    begun, kills = time.monotonic(), 1
    while time.time() < until_s:
        await asyncio.sleep(max(begun + kills * every_s - time.monotonic(), 0))
        fleet.keep_up()
        fleet.kill()
        kills += 1


async def _drained(fleet: Schedulers, store: Store, plan: Plan) -> None:
    """Until no slot is to come and no job is left, or the time is over: what is missing then counts as missed."""
    give_up = time.monotonic() + _DRAIN_WITHIN_S
    names = set(plan.expected())
    while time.monotonic() < give_up:
        fleet.keep_up()
        to_come = [each for each in await store.schedules.all() if each.name in names and each.next_due_ms is not None]
        counts = (await store.jobs.counts(housekeeping=False)).values()
        if not to_come and not any(each.waiting + each.prioritized + each.delayed + each.active for each in counts):
            return
        await asyncio.sleep(0.25)


async def _result(plan: Plan, fleet: Schedulers) -> Result:
    lives = fleet.lives()
    if is_redis(plan.url):
        # There the server's clock says what is due.
        lives = [Life(0, life.up_ns, life.killed_ns) for life in lives]
    verdict, late = await counted(plan, lives)
    problems = list(verdict.problems)
    if fleet.ended_alone:
        problems.append(f"processes ended by themselves, with {fleet.ended_alone}")
    return Result(
        plan=plan,
        lives=lives,
        verdict=verdict,
        late_ms=(at_share(late, 0.5), at_share(late, 0.99), max(late, default=0)),
        kills=fleet.kills,
        none_was_up=fleet.none_was_up,
        problems=tuple(problems),
    )


async def counted(plan: Plan, lives: Sequence[Life]) -> tuple[Verdict, list[int]]:
    """The judgement of what the store has and of what was written down outside of it, and how late each slot was."""
    store = await open_store(plan.url, app=APP, clock=SystemClock(), create=False)
    try:
        stored = {record.name: record for record in await store.schedules.all()}
        jobs = await _all_jobs(store)
    finally:
        await store.close()
    notes = list(notes_in(plan.folder))
    return judge(plan.expected(), stored, jobs, notes), lateness_ms(notes, lives)


async def _all_jobs(store: Store) -> list[JobRecord]:
    found: list[JobRecord] = []
    while page := await store.jobs.find(JobQuery(limit=_PAGE, offset=len(found), housekeeping=False)):
        found += page
    return found


def notes_in(folder: Path) -> Iterator[Note]:
    for place in folder.glob("notes-*"):
        for line in place.read_text().splitlines():
            ns, what, *facts = line.split(" ")
            if what != "up":
                schedule, slot, job_id = facts
                yield Note(int(ns), "ran" if what == "ran" else "fired", (schedule, int(slot)), job_id)
