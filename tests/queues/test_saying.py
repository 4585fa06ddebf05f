"""`job.log` and `job.progress`, from coroutines and threads, in order and under the claim."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.queues.rig import FaultyJobs, Rig
from workfleet.errors import PayloadRejected
from workfleet.events import JobLinesLost, JobLogged
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store


async def test_lines_are_kept_in_order_whatever_is_in_them(rig: Rig) -> None:
    lines = ["plain", "", "a\0b", "lone \ud800", "two\nlines", "x" * 20_000, "<img src=x onerror=alert(1)>"]

    async def talks(job: Any) -> None:
        for line in lines:
            job.log(line)
        job.log(42)

    rig.on(talks)
    async with rig:
        job_id = await rig.enqueue("talks")
        await rig.finished(job_id)
    kept = ["plain", "", "a\0b", "lone ?", "two\nlines", "x" * 10_000, "<img src=x onerror=alert(1)>", "42"]
    assert await rig.store.jobs.logs(job_id) == kept
    assert [event.line for event in rig.told(JobLogged)] == kept


async def test_many_lines_travel_in_few_calls(store: Store) -> None:
    jobs = FaultyJobs(store.jobs, lambda *_: None)
    rig = Rig(store, jobs=jobs)

    async def chatters(job: Any) -> None:
        for number in range(5_000):
            job.log(str(number))

    rig.on(chatters)
    async with rig:
        job_id = await rig.enqueue("chatters")
        await rig.finished(job_id)
    assert await store.jobs.logs(job_id) == [str(number) for number in range(5_000)]
    assert jobs.calls.count("report") == 5


async def test_lines_are_there_while_the_job_runs(rig: Rig) -> None:
    go_on = asyncio.Event()

    async def talks(job: Any) -> None:
        job.log("first")
        await go_on.wait()
        go_on.clear()
        job.log("second")
        await go_on.wait()

    async def kept(count: int) -> None:
        deadline = asyncio.get_running_loop().time() + 5
        while len(await rig.store.jobs.logs(job_id)) < count:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.001)

    rig.on(talks)
    async with rig:
        job_id = await rig.enqueue("talks")
        await kept(1)
        go_on.set()
        await kept(2)
        go_on.set()
        await rig.finished(job_id)
    assert await rig.store.jobs.logs(job_id) == ["first", "second"]


async def test_a_thread_logs_and_reports(rig: Rig) -> None:
    def works(job: Any) -> str:
        for number in range(100):
            job.log(f"line {number}")
            job.progress({"done": number})
        return threading.current_thread().name

    rig.on(works)
    async with rig:
        job_id = await rig.enqueue("works")
        record = await rig.finished(job_id)
    assert await rig.store.jobs.logs(job_id) == [f"line {number}" for number in range(100)]
    assert record.progress == b'{"done":99}'
    assert record.result is not None
    assert record.result.startswith(b'"workfleet-handler-')


async def test_a_thread_may_await_progress_in_a_loop_of_its_own(rig: Rig) -> None:
    def works(job: Any) -> str:
        async def own_loop() -> str:
            await job.progress(1)
            return "delivered"

        return asyncio.run(own_loop())

    rig.on(works)
    async with rig:
        record = await rig.finished(await rig.enqueue("works"))
    assert (record.result, record.progress) == (b'"delivered"', b"1")


async def test_progress_is_there_when_it_was_awaited(rig: Rig) -> None:
    seen: list[bytes | None] = []

    async def works(job: Any) -> None:
        for number in (1, 2):
            await job.progress(number)
            seen.append((await rig.record(job.id)).progress)
        job.progress(3)  # not awaited: it is sent nevertheless

    rig.on(works)
    async with rig:
        record = await rig.finished(await rig.enqueue("works"))
    assert (seen, record.progress) == ([b"1", b"2"], b"3")


async def test_progress_that_cannot_be_stored_is_refused_at_once(rig: Rig) -> None:
    seen: list[str] = []

    async def works(job: Any) -> None:
        try:
            job.progress(object())
        except PayloadRejected as error:
            seen.append(str(error))

    rig.on(works)
    async with rig:
        job_id = await rig.enqueue("works")
        record = await rig.finished(job_id)
    assert record.progress is None
    assert seen[0].startswith(f"progress of job {job_id}: $")


async def test_a_broken_text_is_the_handlers_own_error(rig: Rig) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    async def talks(job: Any) -> None:
        job.log(Broken())

    rig.on(talks)
    async with rig:
        record = await rig.finished(await rig.enqueue("talks"))
    assert record.failure is not None
    assert record.failure.message == "no text"


def full_after(monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    """Let so many short lines wait for the store."""
    monkeypatch.setattr("workfleet.queues.said._MOST_WAITING", lines * "line 100".__sizeof__())


def numbered(count: int) -> list[str]:
    return [f"line {number}" for number in range(100, 100 + count)]


async def test_a_store_that_is_there_loses_no_lines_said_in_one_go(rig: Rig) -> None:
    async def chatters(job: Any) -> None:
        for line in numbered(25_000):
            job.log(line)

    rig.on(chatters)
    async with rig:
        job_id = await rig.enqueue("chatters")
        await rig.finished(job_id)
    assert await rig.store.jobs.logs(job_id) == numbered(25_000)
    assert rig.told(JobLinesLost) == []


async def test_where_lines_are_lost_a_line_says_how_many(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that blocks the loop cannot be made to wait: what it said first makes room."""
    full_after(monkeypatch, 100)

    async def chatters(job: Any) -> None:
        job.log("first")
        await job.progress(1)
        for line in numbered(300):
            job.log(line)
        await job.progress(2)
        job.log("last")

    rig.on(chatters)
    async with rig:
        job_id = await rig.enqueue("chatters")
        await rig.finished(job_id)
    said = "… 200 lines lost: they came faster than the store took them"
    assert await rig.store.jobs.logs(job_id) == ["first", said, *numbered(300)[200:], "last"]
    (lost,) = rig.told(JobLinesLost)
    assert (lost.id, lost.name, lost.queue, lost.lines, lost.level) == (job_id, "chatters", "q", 200, "warning")


async def test_a_thread_waits_until_there_is_room(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    full_after(monkeypatch, 100)

    def chatters(job: Any) -> None:
        for line in numbered(800):
            job.log(line)

    rig.on(chatters)
    async with rig:
        job_id = await rig.enqueue("chatters")
        await rig.finished(job_id)
    assert await rig.store.jobs.logs(job_id) == numbered(800)
    assert rig.told(JobLinesLost) == []


async def test_a_thread_does_not_wait_for_a_store_that_is_down(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    full_after(monkeypatch, 100)
    rig = Rig(store, jobs=FaultyJobs(store.jobs, lambda name, _: "before" if name == "report" else None))

    def chatters(job: Any) -> None:
        for line in numbered(800):
            job.log(line)

    rig.on(chatters)
    async with rig:
        job_id = await rig.enqueue("chatters")
        record = await rig.finished(job_id)
    assert record.state is JobState.COMPLETED
    assert await store.jobs.logs(job_id) == []
    (lost,) = rig.told(JobLinesLost)
    assert (lost.id, lost.lines) == (job_id, 800)


async def test_a_thread_that_blocked_code_waits_for_goes_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    full_after(monkeypatch, 100)
    monkeypatch.setattr("workfleet.queues.said._PATIENCE_S", 0.05)

    async def blocks(job: Any) -> None:
        thread = threading.Thread(target=lambda: [job.log(line) for line in numbered(300)])
        thread.start()
        thread.join()  # the loop, which would send the lines, stands still

    rig.on(blocks)
    async with rig:
        job_id = await rig.enqueue("blocks")
        await rig.finished(job_id)
    said = "… 200 lines lost: they came faster than the store took them"
    assert await rig.store.jobs.logs(job_id) == [said, *numbered(300)[200:]]
