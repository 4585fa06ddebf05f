"""Following the logs of a job."""

from __future__ import annotations

import asyncio

import pytest

from tests.queues.acting.steps import add, claim, finish, sleeping, wake
from workfleet.errors import NotFound
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store
from workfleet.queues.jobs import Jobs
from workfleet.testing.clock import TestClock


async def test_following_logs_ends_with_the_job(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "a")
    heard: list[str] = []

    async def follow() -> None:
        async for line in jobs.follow_logs("a"):
            heard.append(line)  # noqa: PERF401 - what was heard so far is looked at meanwhile

    following = asyncio.create_task(follow())
    await sleeping(clock)
    (job,) = await claim(store)
    for number in range(3):
        assert await store.jobs.report(job.claim, lines=[f"line {number}", "  more"], call=f"c{number}")
        await wake(clock)
        assert heard[-2:] == [f"line {number}", "  more"]
    assert await store.jobs.report(job.claim, lines=["last words"], call="c9")
    await finish(store, [job.claim], JobState.COMPLETED)
    clock.move_to(clock.now_ms() + 2_000)
    await asyncio.wait_for(following, 10)
    assert heard == [line for number in range(3) for line in (f"line {number}", "  more")] + ["last words"]
    assert heard == await jobs.logs("a")
    assert [line async for line in jobs.follow_logs("a")] == heard


async def test_following_the_logs_of_a_job_that_is_deleted_or_not_there(
    store: Store, jobs: Jobs, clock: TestClock
) -> None:
    with pytest.raises(NotFound):
        await anext(jobs.follow_logs("nobody"))
    await add(store, "a")

    async def follow() -> list[str]:
        return [line async for line in jobs.follow_logs("a")]

    following = asyncio.create_task(follow())
    await sleeping(clock)
    await jobs.delete("a")
    clock.move_to(clock.now_ms() + 2_000)
    assert await asyncio.wait_for(following, 10) == []
