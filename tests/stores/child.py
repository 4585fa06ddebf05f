"""Another process on the same file: `python child.py COMMAND FILE …`. It prints one JSON value a line."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import psutil

from workfleet.clock import SystemClock
from workfleet.ids import new_token
from workfleet.model.jobs import JobRecord
from workfleet.model.outcome import Ended, RunPolicy, Settlement, decide
from workfleet.ports.jobs import ClaimRequest, TakeOver, Want
from workfleet.ports.stores import Store
from workfleet.stores.sqlite.store import SqliteStore

BATCH = 40


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


def request(worker: str, limit: int) -> ClaimRequest:
    return ClaimRequest(worker, new_token(), 60_000, (Want("q", limit),))


def done(record: JobRecord) -> Settlement:
    return Settlement(record.claim, decide(Ended(kind="returned"), record, RunPolicy(), now_ms=0, draw=0))


async def feed(store: Store, worker: str) -> None:
    """Enqueue batches until killed; say which were acknowledged."""
    for number in range(1_000_000):
        batch = [JobRecord(id=f"{worker}-{number}-{n}", queue="q", name="work") for n in range(BATCH)]
        await store.jobs.enqueue(batch)
        say(number)


async def work(store: Store, worker: str) -> None:
    """Settle and claim until nothing is left; say what was settled."""
    settlements: list[Settlement] = []
    while True:
        answer = await store.jobs.settle(settlements, request(worker, 7))
        assert all(answer.applied)
        say([settlement.claim.job_id for settlement in settlements])
        if not answer.claimed:
            return
        settlements = [done(record) for record in answer.claimed]


async def share(store: Store, worker: str) -> None:
    """Add some jobs, then work like the others on whatever is there."""
    await store.jobs.enqueue([JobRecord(id=f"{worker}-{n}", queue="q", name="work") for n in range(25)])
    await work(store, worker)


async def limited(store: Store, worker: str) -> None:
    """Work one by one until nothing is left; say what was settled, and how many were active at the most."""
    settled: list[str] = []
    most = 0
    while (counts := (await store.jobs.counts())["q"]).waiting or counts.active:
        for record in await store.jobs.claim(request(worker, 2)):
            most = max(most, (await store.jobs.counts())["q"].active)
            assert (await store.jobs.settle([done(record)])).applied == [True]
            settled.append(record.id)
    say([most, settled])


async def drain(store: Store, worker: str) -> None:
    """Settle and claim 20,000 jobs as a busy worker does; say how fast, and how much memory that took."""
    await store.jobs.claim(ClaimRequest(worker, new_token(), 60_000, (Want("none", 1),)))
    before, began = memory_bytes(), time.perf_counter()
    settlements: list[Settlement] = []
    for _ in range(200):
        answer = await store.jobs.settle(settlements, request(worker, 100))
        assert len(answer.claimed) == 100
        settlements = [done(record) for record in answer.claimed]
    await store.jobs.settle(settlements)
    say([20_000 / (time.perf_counter() - began), memory_bytes() - before])


async def hold(store: Store, worker: str) -> None:
    """Claim some jobs, and be busy with them until killed."""
    assert len(await store.jobs.claim(request(worker, 7))) == 7
    say("held")
    await asyncio.sleep(60)


async def recover(store: Store, worker: str) -> None:
    """Take over what the dead worker held, and die before anything is settled."""
    taken = await store.jobs.take_over(TakeOver(worker, new_token(), 60_000, workers=("worker",)))
    say(len(taken))
    await asyncio.sleep(60)


def memory_bytes() -> int:
    resident: int = psutil.Process().memory_info().rss
    return resident


async def sleep(store: Store, worker: str) -> None:
    """Wait for a job as an idle worker does."""
    assert not await store.jobs.claim(request(worker, 1))
    say("waiting")
    woken = await store.jobs.wait(["q"], 60_000)
    say([woken, [record.id for record in await store.jobs.claim(request(worker, 1))]])


async def main(command: str, path: str, worker: str) -> None:
    store = await SqliteStore.open(Path(path), app="shop", clock=SystemClock(), create=True)
    commands = [feed, work, share, sleep, limited, drain, hold, recover]
    await {each.__name__: each for each in commands}[command](store, worker)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
