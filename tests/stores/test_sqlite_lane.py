"""Group commit: what waits together is committed together, and nobody pays for somebody else's failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import apsw
import pytest

from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.sqlite.lane import Step
from workfleet.stores.sqlite.store import SqliteStore


def job(job_id: str) -> JobRecord:
    return JobRecord(id=job_id, queue="q", name="work")


async def blocked(sqlite: SqliteStore) -> tuple[asyncio.Task[None], Callable[[], None]]:
    """The writer's thread is busy until the second of these is called."""
    begun, over = threading.Event(), threading.Event()

    def operation(_: Step) -> None:
        begun.set()
        assert over.wait(30)

    task = asyncio.create_task(sqlite._lanes.write(operation))
    await asyncio.to_thread(begun.wait, 30)
    return task, over.set


async def commits(sqlite: SqliteStore, hook: Callable[[], bool]) -> None:
    """Call `hook` before each commit; what it returns says whether the commit fails."""
    await sqlite._lanes.write(lambda step: step.db.set_commit_hook(hook))


async def test_what_waits_together_shares_a_commit(sqlite: SqliteStore) -> None:
    count = 0

    def hook() -> bool:
        nonlocal count
        count += 1
        return False

    await commits(sqlite, hook)
    busy, release = await blocked(sqlite)
    calls = [asyncio.create_task(sqlite.jobs.enqueue([job(f"j{n}")])) for n in range(150)]
    await asyncio.sleep(0)
    count = 0
    release()
    answers = await asyncio.gather(busy, *calls)
    assert answers[1:] == [[Enqueued(f"j{n}", created=True)] for n in range(150)]
    assert count == 2  # what kept the thread busy, and all the others


async def test_one_that_fails_takes_nothing_else_with_it(sqlite: SqliteStore) -> None:
    busy, release = await blocked(sqlite)
    names = ("a", "lone \ud800", "b")
    calls = [asyncio.create_task(sqlite.jobs.enqueue([job("with " + name), job(name)])) for name in names]
    await asyncio.sleep(0)
    release()
    answers = await asyncio.gather(busy, *calls, return_exceptions=True)
    assert isinstance(answers[2], UnicodeEncodeError)
    found = await sqlite.jobs.get(["with a", "a", "with b", "b"])
    assert None not in found
    assert (await sqlite.jobs.counts())["q"].waiting == 4
    with pytest.raises(UnicodeEncodeError):
        await sqlite.jobs.enqueue([job("alone"), job("lone \ud800")])
    assert await sqlite.jobs.get(["alone"]) == [None]


async def test_a_commit_that_fails_is_tried_again_with_each_alone(sqlite: SqliteStore) -> None:
    # All together; then alone: the hook's own step, a, b, c.
    refusals = iter([True, False, False, True, False])

    def hook() -> bool:
        return next(refusals, False)

    busy, release = await blocked(sqlite)
    hooked = asyncio.create_task(commits(sqlite, hook))
    calls = [asyncio.create_task(sqlite.jobs.enqueue([job(name)])) for name in "abc"]
    await asyncio.sleep(0)
    release()
    answers = await asyncio.gather(busy, hooked, *calls, return_exceptions=True)
    assert [type(answer) for answer in answers[2:]] == [list, apsw.ConstraintError, list]
    assert [found and found.id for found in await sqlite.jobs.get(["a", "b", "c"])] == ["a", None, "c"]


async def test_a_queue_noted_in_what_was_rolled_back_is_noted_again(sqlite: SqliteStore) -> None:
    with pytest.raises(UnicodeEncodeError):
        await sqlite.jobs.enqueue([job("a"), job("lone \ud800")])
    await sqlite.jobs.enqueue([job("a")])
    assert (await sqlite.jobs.counts())["q"].waiting == 1


async def test_reading_does_not_wait_for_writing(sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([job("a")])
    busy, release = await blocked(sqlite)
    assert (await sqlite.jobs.get(["a"])) != [None]
    assert not busy.done()
    release()
    await busy


async def test_a_claim_that_nobody_waits_for_is_not_made(sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([job("a")])
    busy, release = await blocked(sqlite)
    claiming = asyncio.create_task(sqlite.jobs.claim(ClaimRequest("w", "t", 1_000, (Want("q", 1),))))
    await asyncio.sleep(0)
    claiming.cancel()
    await asyncio.wait({claiming})
    release()
    await busy
    await sqlite.check()  # comes after the claim
    assert (await sqlite.jobs.counts())["q"].waiting == 1


async def test_closing_finishes_what_was_begun(sqlite: SqliteStore) -> None:
    busy, release = await blocked(sqlite)
    adding = asyncio.create_task(sqlite.jobs.enqueue([job("a")]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(sqlite.close())
    release()
    assert await adding == [Enqueued("a", created=True)]
    await asyncio.gather(busy, closing)
    assert not any(thread.name.startswith("workfleet-sqlite") for thread in threading.enumerate())
