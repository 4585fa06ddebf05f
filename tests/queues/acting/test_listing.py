"""Listing jobs, and pages of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.queues.acting.steps import HOUR, NOW, add, failed, ids
from workfleet.errors import NotFound, UsageError
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store
from workfleet.queues import actions
from workfleet.queues.filters import query_of
from workfleet.queues.jobs import Jobs
from workfleet.testing.clock import TestClock


async def test_every_filter_and_the_newest_first(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "old", tags=("red", "blue"), payload=b'{"mail":"Ada@example.com"}')
    clock.move_to(NOW + HOUR)
    await add(store, "grouped", group="g1")
    await add(store, "other", queue="r", name="m")
    await add(store, "later", delay_ms=HOUR)
    await add(store, "heart", queue="beats", housekeeping=True)
    clock.move_to(NOW + HOUR + 60_000)
    await failed(store, "broken", message="Connection timeout")
    at = datetime.fromtimestamp((NOW + HOUR) / 1000, UTC)
    for filters, expected in (
        ({}, ["broken", "other", "later", "grouped", "old"]),
        ({"housekeeping": True}, ["broken", "other", "later", "heart", "grouped", "old"]),
        ({"queue": "beats"}, ["heart"]),
        ({"queue": "beats", "housekeeping": False}, []),
        ({"queue": "r"}, ["other"]),
        ({"name": "m"}, ["other"]),
        ({"states": [JobState.DELAYED, JobState.FAILED]}, ["broken", "later"]),
        ({"states": ["failed"]}, ["broken"]),
        ({"tag": "blue"}, ["old"]),
        ({"group": "g1"}, ["grouped"]),
        ({"older_than": "30m"}, ["old"]),
        ({"older_than": timedelta(minutes=1)}, ["old"]),
        ({"older_than": "59s"}, ["other", "later", "grouped", "old"]),
        ({"newer_than": "1m", "queue": "q"}, ["later", "grouped"]),
        ({"newer_than": at, "older_than": at + timedelta(seconds=1)}, ["other", "later", "grouped"]),
        ({"text": "ada@EXAMPLE"}, ["old"]),
        ({"text": "TIMEOUT"}, ["broken"]),
        ({"text": "valueerror"}, ["broken"]),
        ({"limit": 2}, ["broken", "other"]),
        ({"limit": 2, "offset": 1}, ["other", "later"]),
    ):
        assert ids(await jobs.list(**filters)) == expected, filters


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"limit": 0}, "limit=0, offset=0: at most 1,000,000"),
        ({"limit": 10**20}, "use iterate"),
        ({"offset": -1}, "offset=-1"),
        ({"states": ["broken"]}, "states: 'broken' is not a valid JobState; there are waiting, "),
        ({"older_than": "90"}, "older_than: '90' has no unit"),
        ({"newer_than": datetime(2026, 1, 1)}, "newer_than: 2026-01-01T00:00:00 has no time zone"),  # noqa: DTZ001 - that is the mistake
        ({"queue": "\udcff"}, "queue='\\udcff': it is no Unicode text"),
        ({"text": 3}, "text=3: it is text"),
        ({"sate": "failed"}, "unknown filter 'sate'; there are group, "),
    ],
    ids=str,
)
async def test_filters_that_make_no_sense(filters: dict[str, Any], told: str, jobs: Jobs) -> None:
    with pytest.raises(UsageError) as error:
        await jobs.list(**filters)
    assert told in str(error.value)


def test_ages_beyond_the_beginning_are_everything() -> None:
    assert query_of({"newer_than": "3000d"}, 1_000).created_from_ms == 0
    assert query_of({"newer_than": datetime(1901, 1, 1, tzinfo=UTC)}, 1_000).created_from_ms == 0


async def test_iterating_gives_each_job_once_in_pages_whatever_happens(
    store: Store, jobs: Jobs, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "PAGE", 10)
    await add(store, *(f"a{number:02}" for number in range(25)))  # all of one instant
    clock.move_to(NOW + 1)
    await add(store, *(f"b{number:02}" for number in range(10)))
    met: list[str] = []
    async for job in jobs.iterate(queue="q"):
        met.append(job.id)
        if len(met) == 3:  # what is behind changes, what is met is deleted, new ones come
            clock.move_to(NOW + 2)
            await add(store, "new")
            await jobs.delete("b09", "b08", "a24")
    expected = [f"b{number:02}" for number in range(9, -1, -1)] + [f"a{number:02}" for number in range(23, -1, -1)]
    assert met == expected


async def test_a_job_that_is_not_there(jobs: Jobs) -> None:
    for job_id, shown in (("nobody", "'nobody'"), ("\udcff", "'\\udcff'"), ("x" * 1_000, f"'{'x' * 60}…'")):
        for ask in (jobs.get, jobs.logs, jobs.explain):
            with pytest.raises(NotFound) as error:
                await ask(job_id)
            assert str(error.value) == f"there is no job {shown}: check the id, or its retention is over"
