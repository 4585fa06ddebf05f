"""A soak: a fleet works while its processes are killed, and its server too where there is one, then everything is
counted."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store

from .fleet import Fleet
from .outages import Outages
from .patience import patiently
from .verdict import Effect, Verdict, judge

ROOT = Path(__file__).parents[2]
SUPERVISORS = 2
_PER_QUEUE = 6_000
"""Fewer than retention keeps of a queue."""
_KILL_EVERY_S = 1.0
_SUPERVISOR_EVERY, _FIRST_SUPERVISOR = 15, 10
"""The tenth kill is of a supervisor, and every 15th after it."""
_PATIENCE_S = 5.0
"""Half as many workers, and a server that is away: for so long none of them may be up before a supervisor is killed."""
_READY_WITHIN_S = 180.0
_DRAIN_WITHIN_S = 120.0
_PAGE = 5_000


@dataclass(frozen=True)
class Result:
    """The counts and what was killed."""

    verdict: Verdict
    worker_kills: int
    supervisor_kills: int
    none_was_up: int
    """How many of these because every worker waited for its restart."""
    problems: tuple[str, ...]
    server_stops: int | None = None
    """None: there is no server."""

    def table(self) -> str:
        verdict = self.verdict
        lines = [
            ("acknowledged", verdict.acknowledged, ""),
            ("completed", verdict.completed, ""),
            ("failed by the crash limit", verdict.crash_limit, ""),
            ("failed otherwise", verdict.failed_otherwise, "must be 0"),
            ("lost", verdict.lost, "must be 0"),
            ("worker processes killed", self.worker_kills, ""),
            ("supervisors killed", self.supervisor_kills, f"{self.none_was_up} of them as no worker was up"),
            *([] if self.server_stops is None else [("times the server ended", self.server_stops, "")]),
            ("runs beyond one a job", verdict.runs_beyond_one, f"at most {verdict.in_flight_at_kills}"),
            ("jobs in flight at the kills", verdict.in_flight_at_kills, ""),
            ("side effects after settle", verdict.effects_after_settle, "must be 0"),
        ]
        width = max(len(name) for name, _, _ in lines)
        return "\n".join(f"{name:<{width}}  {count:>9,}  {rule}".rstrip() for name, count, rule in lines)


def sqlite(folder: Path) -> str:
    """The URL of a soak's file."""
    return f"sqlite:///{folder / 'store.db'}"


async def soak(
    folder: Path, url: str, *, workers: int, seconds: float, jobs: int, seed: int, outages: Outages | None = None
) -> Result:
    """Feed `jobs` over `seconds` to a fleet of two supervisors with so many `workers` each, of which a process is
    killed every second, and count."""
    queues, draw = -(-jobs // _PER_QUEUE), random.Random(seed)
    store = await _opened(url, create=True)
    fleet = Fleet(folder, url, SUPERVISORS, workers, queues, draw)
    producer: subprocess.Popen[bytes] | None = None
    try:
        await _until_workers(store, SUPERVISORS * workers)
        arguments = [str(folder), url, str(queues), str(jobs), str(seconds), str(seed)]
        producer = subprocess.Popen([sys.executable, "-m", "tests.soak.producer", *arguments], cwd=ROOT)
        await _until_fed(folder, producer)
        await _disturb(fleet, store, seconds, outages)
        code = await asyncio.to_thread(producer.wait, _DRAIN_WITHIN_S)
        await _drained(fleet, store)
    finally:
        if producer is not None:
            producer.kill()
            producer.wait()
        await asyncio.to_thread(fleet.stop)
        await store.close()
    verdict = await _counted(folder, url, fleet.in_flight)
    problems = [*verdict.problems, *([f"the producer ended with {code}"] if code else [])]
    if verdict.acknowledged != jobs:
        problems.append(f"{verdict.acknowledged} of {jobs} jobs were acknowledged")
    if fleet.ended_alone:
        problems.append(f"supervisors ended by themselves, with {fleet.ended_alone}")
    return Result(
        verdict,
        fleet.worker_kills,
        fleet.supervisor_kills,
        fleet.none_was_up,
        tuple(problems),
        None if outages is None else outages.stops,
    )


async def _opened(url: str, *, create: bool) -> Store:
    return await open_store(url, app="soak", clock=SystemClock(), create=create)


async def _until_workers(store: Store, count: int) -> None:
    give_up = time.monotonic() + _READY_WITHIN_S
    while len(await store.fleet.workers()) < count:
        if time.monotonic() > give_up:
            raise RuntimeError(f"the fleet did not come up within {_READY_WITHIN_S:.0f} s")
        await asyncio.sleep(0.1)


async def _until_fed(folder: Path, producer: subprocess.Popen[bytes]) -> None:
    """Until the first job is acknowledged: a kill before would hit nobody at work."""
    place = folder / "acknowledged"
    give_up = time.monotonic() + _READY_WITHIN_S
    while not place.exists() or not place.stat().st_size:
        if time.monotonic() > give_up or producer.poll() is not None:
            raise RuntimeError("the producer has fed nothing")
        await asyncio.sleep(0.1)


async def _disturb(fleet: Fleet, store: Store, seconds: float, outages: Outages | None) -> None:
    if outages is None:
        await _kill(fleet, store, seconds, contextlib.nullcontext())
        return
    async with asyncio.TaskGroup() as both:
        both.create_task(outages.happen(seconds))
        both.create_task(_kill(fleet, store, seconds, outages.while_up, _PATIENCE_S))


async def _kill(
    fleet: Fleet,
    store: Store,
    seconds: float,
    while_up: contextlib.AbstractAsyncContextManager[object],
    patience_s: float = 0.0,
) -> None:
    begun = time.monotonic()
    for kill in range(1, int(seconds / _KILL_EVERY_S)):
        await asyncio.sleep(max(begun + kill * _KILL_EVERY_S - time.monotonic(), 0))
        fleet.keep_up()
        if kill % _SUPERVISOR_EVERY == _FIRST_SUPERVISOR or not await fleet.kill_worker(store, patience_s):
            # What its workers hold until they end is asked all that time.
            async with while_up:
                await fleet.kill_supervisor(store)


async def _drained(fleet: Fleet, store: Store) -> None:
    """Until no job is left to do, or the time is over: then what is left counts as lost."""
    give_up = time.monotonic() + _DRAIN_WITHIN_S
    while time.monotonic() < give_up:
        fleet.keep_up()
        counts = (await patiently(lambda: store.jobs.counts(housekeeping=False))).values()
        if not any(each.waiting + each.prioritized + each.delayed + each.active for each in counts):
            return
        await asyncio.sleep(0.25)


async def _counted(folder: Path, url: str, in_flight: int) -> Verdict:
    acknowledged = (folder / "acknowledged").read_text().split()
    store = await _opened(url, create=False)
    try:
        records = await _all_records(store)
    finally:
        await store.close()
    effects = [_effect(line) for place in folder.glob("effects-*") for line in place.read_text().splitlines()]
    return judge(acknowledged, records, effects, in_flight)


def _effect(line: str) -> Effect:
    ns, what, job_id = line.split(" ")
    return Effect(int(ns) // 1_000_000, what, job_id)


async def _all_records(store: Store) -> dict[str, JobRecord]:
    found: dict[str, JobRecord] = {}
    while page := await store.jobs.find(JobQuery(limit=_PAGE, offset=len(found), housekeeping=False)):
        found |= {record.id: record for record in page}
    return found
