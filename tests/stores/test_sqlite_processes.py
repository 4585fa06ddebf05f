"""Several processes on one file: no job is shared, nothing acknowledged is lost, and one wakes the other."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import JobQuery, TakeOver
from workfleet.stores.sqlite.store import SqliteStore
from workfleet.testing.contracts.harness import inconsistencies

from .child import BATCH
from .conftest import Start

_DEADLINE_S = 60


async def answers(child: asyncio.subprocess.Process) -> list[object]:
    """Everything that a child says until its end."""
    async with asyncio.timeout(_DEADLINE_S):
        out, _ = await child.communicate()
    # A child that was killed may have died in the middle of a line.
    return [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]


async def answer(child: asyncio.subprocess.Process) -> object:
    assert child.stdout is not None
    async with asyncio.timeout(_DEADLINE_S):
        return json.loads(await child.stdout.readline())


async def test_eight_processes_make_the_file_and_never_share_a_job(start: Start, path: Path) -> None:
    children = [await start("share", f"w{n}") for n in range(8)]
    said = await asyncio.gather(*(answers(child) for child in children))
    settled = [job_id for of_child in said for ids in of_child for job_id in ids]  # type: ignore[attr-defined]
    assert [child.returncode for child in children] == [0] * 8
    # Whoever was last has taken what was left, so all of the 200 jobs are settled, each by one process.
    assert sorted(settled) == sorted(f"w{n}-{m}" for n in range(8) for m in range(25))
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=False)
    assert (await store.jobs.counts())["q"].completed == 200
    assert await inconsistencies(store) == []
    await store.close()


async def test_eight_processes_keep_a_queues_limit_and_let_its_groups_take_turns(
    start: Start, sqlite: SqliteStore
) -> None:
    await sqlite.queues.set_limits({"q": QueueLimits(concurrency=3)})
    jobs = [JobRecord(id=f"{group}-{n}", queue="q", name="work", group=group) for group in "abcde" for n in range(30)]
    await sqlite.jobs.enqueue(jobs)
    children = [await start("limited", f"w{n}") for n in range(8)]
    said = await asyncio.gather(*(answers(child) for child in children))
    assert [child.returncode for child in children] == [0] * 8
    settled = [job_id for ((_, ids),) in said for job_id in ids]  # type: ignore[misc]
    assert sorted(settled) == sorted(job.id for job in jobs)
    most = [most for ((most, _),) in said]  # type: ignore[misc]
    assert max(most) == 3
    # While all groups have jobs, none is a turn behind but for those under way, and for what one millisecond hides.
    finished = await sqlite.jobs.find(JobQuery(states=(JobState.COMPLETED,), limit=1_000))
    first = [job.group for job in sorted(finished, key=lambda job: job.started_ms or 0)[:75]]
    assert max(first.count(group) for group in "abcde") - min(first.count(group) for group in "abcde") <= 5


async def test_what_a_killed_supervisor_had_taken_over_is_found_by_its_name(start: Start, sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([JobRecord(id=f"j{n}", queue="q", name="work") for n in range(100)])
    child = await start("hold", "worker")
    assert await answer(child) == "held"
    child.kill()
    supervisor = await start("recover", "supervisor")
    assert await answer(supervisor) == 7
    supervisor.kill()
    # No lease is over: the worker's and the supervisor's are a minute each.
    assert await sqlite.jobs.take_over(TakeOver("next", "t1", 60_000)) == []
    assert await sqlite.jobs.take_over(TakeOver("next", "t2", 60_000, workers=("worker",))) == []
    found = await sqlite.jobs.take_over(TakeOver("next", "t3", 60_000, workers=("supervisor",)))
    assert [(record.id, record.worker) for record in found] == [(f"j{n}", "worker") for n in range(7)]


async def test_a_killed_writer_loses_nothing_that_was_acknowledged(start: Start, sqlite: SqliteStore) -> None:
    for round_number in range(3):
        child = await start("feed", f"r{round_number}")
        while await answer(child) != 3 + 5 * round_number:
            pass
        child.kill()
        acknowledged = 4 + 5 * round_number + len(await answers(child))
        stored = [job.id for job in await sqlite.jobs.find(JobQuery(limit=100_000))]
        batches = [job_id.rsplit("-", 1)[0] for job_id in stored if job_id.startswith(f"r{round_number}-")]
        for number in range(acknowledged):
            assert batches.count(f"r{round_number}-{number}") == BATCH
        # The one under way is there whole or not at all.
        assert batches.count(f"r{round_number}-{acknowledged}") in (0, BATCH)
        assert len(set(batches)) in (acknowledged, acknowledged + 1)


async def test_a_killed_worker_leaves_each_job_in_one_state(start: Start, sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([JobRecord(id=f"j{n}", queue="q", name="work") for n in range(5_000)])
    child = await start("work")
    settled: list[str] = []
    while len(settled) < 100:
        settled += await answer(child)  # type: ignore[arg-type]
    child.kill()
    settled += [job_id for ids in await answers(child) for job_id in ids]  # type: ignore[attr-defined]
    assert await inconsistencies(sqlite) == []
    completed = {job.id for job in await sqlite.jobs.find(JobQuery(states=(JobState.COMPLETED,), limit=9_000))}
    active = await sqlite.jobs.find(JobQuery(states=(JobState.ACTIVE,), limit=9_000))
    assert completed >= set(settled)
    assert len(completed) - len(settled) in (0, 7)  # committed, but killed before it could say so
    assert len(active) == 7
    assert (await sqlite.jobs.counts())["q"].waiting == 5_000 - len(completed) - 7


async def test_a_process_wakes_another(start: Start, sqlite: SqliteStore, path: Path) -> None:
    child = await start("sleep")
    assert await answer(child) == "waiting"
    await sqlite.jobs.enqueue([JobRecord(id="elsewhere", queue="other", name="work")])
    began = time.monotonic()
    await sqlite.jobs.enqueue([JobRecord(id="a", queue="q", name="work")])
    assert await answer(child) == [True, ["a"]]
    assert time.monotonic() - began < 10  # the child would have waited for a minute
    assert await answers(child) == []
    assert not Path(f"{path}.wake").exists()


async def test_a_killed_listeners_socket_is_removed_by_who_rings(start: Start, sqlite: SqliteStore, path: Path) -> None:
    child = await start("sleep")
    assert await answer(child) == "waiting"
    folder = Path(f"{path}.wake")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == 1
    child.kill()
    await child.wait()
    await sqlite.jobs.enqueue([JobRecord(id="a", queue="q", name="work")])
    # A second call comes back after the first one's bells have been rung.
    await sqlite.check()
    assert list(folder.iterdir()) == []
