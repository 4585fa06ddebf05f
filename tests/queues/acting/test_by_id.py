"""What is done to jobs by their ids."""

from __future__ import annotations

import pytest

from tests.queues.acting.steps import HOUR, add, claim, failed, finish, park, states
from workfleet.errors import NotFound, UsageError
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store
from workfleet.queues.actions import Acted
from workfleet.queues.jobs import Jobs


async def test_each_answer_says_what_happened(store: Store, jobs: Jobs) -> None:
    await failed(store, "f1", "f2")
    await add(store, "runs", queue="busy")
    await claim(store, "busy")
    await add(store, "waits")
    await add(store, "later", delay_ms=HOUR)
    assert await jobs.retry("f1", "f2", "f1") == [Acted("f1", "retried"), Acted("f2", "retried")]
    assert await jobs.promote("later") == [Acted("later", "promoted")]
    await finish(store, [job.claim for job in await claim(store, "failing", 2)], JobState.COMPLETED)
    cancelled = await jobs.cancel("waits", "runs", "f1")
    assert cancelled == [Acted("waits", "cancelled"), Acted("runs", "asked"), Acted("f1", "finished")]
    assert [one.done for one in cancelled] == [True, True, False]
    assert await jobs.cancel("waits") == [Acted("waits", "finished")]
    assert await jobs.delete("waits", "f2") == [Acted("waits", "deleted"), Acted("f2", "deleted")]
    assert await states(store) == {"f1": "completed", "runs": "active", "later": "waiting"}
    assert (await jobs.get("runs")).cancel_asked


async def test_nothing_is_done_when_one_id_is_wrong(store: Store, jobs: Jobs) -> None:
    await failed(store, "f1")
    await add(store, "waits")
    await add(store, "runs", queue="busy")
    await claim(store, "busy")
    before = await states(store)
    for act, given_ids, error, told in (
        (jobs.retry, ("f1", "nope", "gone"), NotFound, "there is no job nope, gone: check the id"),
        (jobs.retry, ("f1", "waits"), UsageError, "job waits is waiting: only a failed job can be retried. Nothing"),
        (jobs.delete, ("f1", "runs"), UsageError, "job runs is active: a job that runs cannot be deleted: cancel it"),
        (jobs.promote, ("waits", "f1"), UsageError, "job waits is waiting, job f1 is failed: only a delayed job that"),
        (jobs.cancel, ("waits", "nope"), NotFound, "there is no job nope: "),
    ):
        with pytest.raises(error) as raised:
            await act(*given_ids)
        assert str(raised.value).startswith(told)
        assert await states(store) == before
    with pytest.raises(NotFound) as many:
        await jobs.retry(*(f"m{number}" for number in range(50)))
    assert "m19 and 30 more: check the id" in str(many.value)


async def test_a_retry_that_a_unique_key_forbids_says_so(store: Store, jobs: Jobs) -> None:
    await failed(store, "first", unique_key="k")
    await add(store, "second", unique_key="k")
    await failed(store, "free")
    with pytest.raises(UsageError) as error:
        await jobs.retry("first")
    assert str(error.value) == (
        "cannot retry job first: another job holds its unique key by now, or it has not failed any more"
    )
    refused, retried = await jobs.retry("first", "free")
    assert (refused.result, refused.done, retried.result) == ("refused", False, "retried")


async def test_a_parked_job_cannot_be_promoted(store: Store, jobs: Jobs) -> None:
    await park(store)
    with pytest.raises(UsageError, match="job second is parked behind the job that runs under its unique key"):
        await jobs.promote("second")
    assert await jobs.promote_all(everything=True) == 0
