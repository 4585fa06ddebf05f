"""What is done to all jobs that match."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.queues.acting.steps import HOUR, add, claim, failed, finish, states
from workfleet.errors import UsageError
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store
from workfleet.queues import actions
from workfleet.queues.jobs import Jobs


async def test_all_that_match_in_pages_each_once(store: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "PAGE", 10)
    await failed(store, *(f"f{number:02}" for number in range(25)), tags=("red",))
    await failed(store, "other", queue="else")
    await add(store, "waits", tags=("red",))
    found = [job.id async for job in jobs.changed_by("retry", tag="red")]
    assert (len(found), set(found) & {"waits", "other"}) == (25, set())
    asked: list[str] = []
    retry = store.jobs.retry

    async def noting(wanted: Sequence[str], *, queue: str) -> list[bool]:
        asked.extend(wanted)
        done = await retry(wanted, queue=queue)
        # A worker takes some at once, and they fail again: they are not met twice.
        claimed = await claim(store, "failing", len(wanted))
        await finish(store, [job.claim for job in claimed], JobState.FAILED)
        return done

    monkeypatch.setattr(store.jobs, "retry", noting)
    assert await jobs.retry_all(tag="red") == 25
    assert (len(asked), set(asked)) == (25, set(found))
    assert {(await jobs.get(one)).state for one in found} == {JobState.FAILED}


async def test_an_action_takes_only_the_states_that_it_is_about(store: Store, jobs: Jobs) -> None:
    await failed(store, "f1")
    await add(store, "runs", queue="busy")
    await claim(store, "busy")
    await add(store, "waits")
    await add(store, "later", delay_ms=HOUR)
    await add(store, "heart", queue="beats", housekeeping=True)
    assert await jobs.promote_all(queue="q") == 1
    assert await states(store) == {
        "f1": "failed", "runs": "active", "waits": "waiting", "later": "waiting", "heart": "waiting",
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"cancel_all\(\) without a filter is about every job"):
        await jobs.cancel_all()
    assert await jobs.cancel_all(everything=True) == 3
    assert (await states(store))["runs"] == "active"
    assert await jobs.delete_all(states=[JobState.FAILED, JobState.ACTIVE], older_than="0s") == 0  # all of this instant
    assert await jobs.delete_all(states=[JobState.FAILED, JobState.ACTIVE]) == 3
    assert await states(store) == {"runs": "active", "heart": "waiting"}
    for act, told in (
        (jobs.retry_all, "cannot retry waiting, delayed jobs: only a failed job can be retried"),
        (jobs.promote_all, None),
    ):
        if told is None:
            assert await act(states=[JobState.WAITING, JobState.DELAYED]) == 0
            continue
        with pytest.raises(UsageError) as error:
            await act(states=[JobState.WAITING, JobState.DELAYED])
        assert str(error.value) == told
    with pytest.raises(UsageError, match="is none of retry, cancel, delete, promote"):
        await jobs.check("burn", "runs")  # type: ignore[arg-type]
