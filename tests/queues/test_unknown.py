"""A job whose name no handler knows: put back for a while, because a deploy may bring its handler, then failed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queues.rig import Rig, until
from workfleet.errors import HandlerNotFound
from workfleet.events import JobClaimed, JobSettled
from workfleet.model.jobs import JobState
from workfleet.model.outcome import DEFER_MS
from workfleet.queues.handlers import HandlerTable
from workfleet.stores.open import open_store
from workfleet.testing.clock import TestClock

NOW = 1_800_000_000_000


async def clocked() -> Rig:
    clock = TestClock(NOW)
    return Rig(await open_store("memory://", app="test", clock=clock, create=True), clock=clock)


async def _known(_job: Any) -> str:
    return "done"


async def test_it_is_put_back_and_then_failed_with_the_known_names() -> None:
    rig = await clocked()
    rig.on(_known, name="b")
    rig.on(_known, name="a")
    rig.on(_known, name="elsewhere", queue="other")
    async with rig:
        job_id = await rig.enqueue("nobody")
        await until(lambda: len(rig.told(JobSettled)) == 1)
        put_back = await rig.record(job_id)
        # It goes on when it waits: what it then does first would wait for the clock to move once more.
        await until(lambda: rig.clock.sleepers)  # type: ignore[attr-defined]
        rig.clock.move_to(NOW + DEFER_MS)  # type: ignore[attr-defined]
        record = await rig.finished(job_id)
    assert (put_back.state, put_back.due_ms, put_back.deferrals) == (JobState.DELAYED, NOW + DEFER_MS, 1)
    assert (record.state, record.outcome, record.attempts_made, record.deferrals) == (
        JobState.FAILED, "unknown_job", 0, 1
    )  # fmt: skip
    assert record.failure is not None
    assert record.failure.message == "no handler is named 'nobody' on queue 'q'. Known handlers: a, b"
    assert record.failure.traceback == ""
    assert rig.told(JobClaimed) == []  # nothing ran


async def test_a_deploy_brings_the_handler() -> None:
    rig = await clocked()
    rig.on(_known, name="old")
    async with rig:
        job_id = await rig.enqueue("new")
        await until(lambda: len(rig.told(JobSettled)) == 1)
    newer = Rig(rig.store, clock=rig.clock)
    newer.on(_known, name="new")
    async with newer:
        rig.clock.move_to(NOW + DEFER_MS)  # type: ignore[attr-defined]
        record = await newer.finished(job_id)
    assert (record.state, record.result) == (JobState.COMPLETED, b'"done"')


def test_a_table_without_handlers_says_so() -> None:
    with pytest.raises(HandlerNotFound, match="Known handlers: none"):
        HandlerTable([], {"q": 1}).find("q", "x")
