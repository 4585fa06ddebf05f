"""Group commit: what waits together is committed together, and nobody pays for somebody else's failure."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.sqlite.connect import Database, Patience, connect
from workfleet.stores.sqlite.lane import Lane, Step
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


async def test_a_claim_whose_number_is_anothers_is_refused_and_the_next_one_has_its_own(
    sqlite: SqliteStore, outside: Callable[[str], object]
) -> None:
    """However it came to that: two claims under one number would be one."""
    await sqlite.jobs.enqueue([job("a"), job("b")])
    (a,) = await sqlite.jobs.claim(ClaimRequest("w", "t1", 60_000, (Want("q", 1),)))
    outside("INSERT INTO wf_claim SELECT claim + 1, app, 'other', worker, granted_ms FROM wf_claim")
    with pytest.raises(apsw.ConstraintError):
        await sqlite.jobs.claim(ClaimRequest("w", "t2", 60_000, (Want("q", 1),)))
    assert (await sqlite.jobs.counts())["q"].waiting == 1
    (b,) = await sqlite.jobs.claim(ClaimRequest("w", "t2", 60_000, (Want("q", 1),)))
    assert await sqlite.jobs.get(["a", "b"]) == [a, b]


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


async def test_what_nobody_foresaw_fails_who_waits_and_the_thread_goes_on(
    sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter([ValueError("no such mount")])
    look = Database.check_version

    def check_version(database: Database) -> None:
        for fault in faults:
            raise fault
        look(database)

    busy, release = await blocked(sqlite)
    monkeypatch.setattr(Database, "check_version", check_version)
    before = sqlite._lanes._writer._database
    calls = [asyncio.create_task(sqlite.jobs.enqueue([job(name)])) for name in "abc"]
    await asyncio.sleep(0)
    release()
    async with asyncio.timeout(30):
        _, *answers = await asyncio.gather(busy, *calls, return_exceptions=True)
        for answer in answers:
            assert isinstance(answer, StoreUnavailable)
            assert "ValueError: no such mount" in answer.reason
            assert isinstance(answer.__cause__, ValueError)
        assert await sqlite.jobs.enqueue([job("a")]) == [Enqueued("a", created=True)]
    assert sqlite._lanes._writer._database is not before, "a connection of which nobody knows the state is given up"


async def test_what_comes_after_a_commit_cannot_undo_it(path: Path) -> None:
    told: list[set[str]] = []

    def after(topics: set[str]) -> None:
        told.append(topics)
        raise LookupError("nobody there")

    lane = Lane(
        path,
        lambda: connect(path, create=True, patience=Patience()),
        kind="write",
        clock=SystemClock(),
        after=after,
    )
    async with asyncio.timeout(30):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert await lane.run(lambda step: step.topics.add("one")) is None
            assert await lane.run(lambda step: step.topics.add("two")) is None
        await lane.close()
    assert told == [{"one"}, {"two"}]
    assert ["nobody there" in str(each.message) for each in warned] == [True]


async def test_closing_finishes_what_was_begun(sqlite: SqliteStore) -> None:
    busy, release = await blocked(sqlite)
    adding = asyncio.create_task(sqlite.jobs.enqueue([job("a")]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(sqlite.close())
    release()
    assert await adding == [Enqueued("a", created=True)]
    await asyncio.gather(busy, closing)
    assert not any(thread.name.startswith("workfleet-sqlite") for thread in threading.enumerate())
