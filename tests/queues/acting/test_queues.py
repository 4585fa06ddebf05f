"""Queues: shown, paused, purged."""

from __future__ import annotations

import pytest

from tests.queues.acting.steps import HOUR, add, claim, failed, ids, states
from workfleet.errors import NotFound, UsageError
from workfleet.model.jobs import JobState
from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store
from workfleet.queues.jobs import Jobs
from workfleet.queues.queues import Queues


async def test_queues_are_shown_paused_and_resumed(store: Store, queues: Queues) -> None:
    with pytest.raises(NotFound, match=r"there is no queue 'q'\. Known queues: none"):
        await queues.get("q")
    assert (await queues.pause("empty"), await queues.pause("empty")) == (True, False)
    assert (await queues.get("empty")).paused
    await add(store, "a", "b")
    await store.queues.set_limits({"q": QueueLimits(concurrency=3)})
    info = await queues.get("q")
    assert (info.name, info.counts.waiting, info.paused, info.limits.concurrency) == ("q", 2, False, 3)
    assert await queues.pause("q")
    assert await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 5),))) == []
    assert (await queues.resume("q"), await queues.resume("q")) == (True, False)
    assert ids(await store.jobs.claim(ClaimRequest("w", "t2", 30_000, (Want("q", 5),)))) == ["a", "b"]
    with pytest.raises(NotFound, match="Known queues: empty, q"):
        await queues.get("nope")
    for name in ("", "\udcff"):
        with pytest.raises(UsageError, match="a name is printable text"):
            await queues.pause(name)


async def test_purge_deletes_what_has_not_begun_unless_told_otherwise(
    store: Store, jobs: Jobs, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workfleet.queues.queues._PAGE", 10)
    await failed(store, "f1", queue="q")
    await add(store, "runs")
    await claim(store)
    await add(store, *(f"w{number}" for number in range(25)))
    await add(store, "first", priority=1)
    await add(store, "later", delay_ms=HOUR)
    await add(store, "other", queue="r")
    assert await queues.purge("q") == 27
    assert await states(store) == {"f1": "failed", "runs": "active", "other": "waiting"}
    assert await queues.purge("q", states=[JobState.FAILED]) == 1
    with pytest.raises(UsageError, match="active jobs cannot be purged"):
        await queues.purge("q", states=[JobState.ACTIVE])
    with pytest.raises(UsageError, match="'broken' is not a valid JobState"):
        await queues.purge("q", states=["broken"])  # type: ignore[list-item]
    assert await states(store) == {"runs": "active", "other": "waiting"}
