"""One timer for all deadlines: each expires at its own time, and what has ended costs nothing."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.queues.deadlines import Deadlines


async def test_each_task_is_cancelled_at_its_own_time_whatever_the_order() -> None:
    loop = asyncio.get_running_loop()
    deadlines, ended = Deadlines(loop), list[tuple[int, bool]]()
    started = loop.time()
    times = {}

    async def run(timeout_ms: int) -> None:
        deadline = deadlines.start(timeout_ms)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            times[timeout_ms] = loop.time() - started
            deadlines.end(deadline)
            ended.append((timeout_ms, deadline.expired))

    async with asyncio.TaskGroup() as group:
        for timeout_ms in (60, 20, 40):
            group.create_task(run(timeout_ms))
    assert ended == [(20, True), (40, True), (60, True)]
    assert all(seconds >= timeout_ms / 1000 - 0.002 for timeout_ms, seconds in times.items())


async def test_a_run_that_has_ended_is_not_cancelled() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    deadline = deadlines.start(10)
    deadlines.end(deadline)
    later = deadlines.start(20)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    assert later.expired
    assert not deadline.expired


async def test_a_million_long_deadlines_keep_no_memory() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    running = [deadlines.start(3_600_000) for _ in range(10)]
    for _ in range(10_000):
        deadlines.end(deadlines.start(3_600_000))
    assert len(deadlines._heap) < 1_000
    assert not any(deadline.expired for deadline in running)
