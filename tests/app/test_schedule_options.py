"""`@schedule`'s options about time, from the decorator to what is stored and fired."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.app.working import Worker, until
from workfleet import App
from workfleet.events import ScheduleSkipped
from workfleet.model.schedules import ScheduleRecord

SPRING = 1_806_148_800_000  # 2027-03-27T12:00Z, the day before the clock is set forward in Berlin
AUTUMN = 1_824_897_600_000  # 2027-10-30T12:00Z


async def stored(**options: Any) -> ScheduleRecord:
    app = App("shop")

    @app.schedule("s", **options)
    async def scheduled() -> None: ...

    async with Worker(app, heartbeat_enabled=False) as worker:
        found: ScheduleRecord = next(each for each in await worker.store.schedules.all() if each.name == "s")
        return found


def hours(record: ScheduleRecord, after: int, count: int) -> list[float]:
    """The next slots, in hours after an instant."""
    found, at = list[float](), record.timing.next_after(after)
    while at is not None and len(found) < count:
        found.append((at - after) / 3_600_000)
        at = record.timing.next_after(at)
    return found


@pytest.mark.parametrize(("gap", "expected"), [("shift", [13.0, 36.5]), ("skip", [36.5, 60.5])])
async def test_dst_gap_is_stored_and_has_its_effect(gap: str, expected: list[float]) -> None:
    record = await stored(cron="30 2 * * *", timezone="Europe/Berlin", dst_gap=gap)
    assert hours(record, SPRING, 2) == expected


@pytest.mark.parametrize(
    ("overlap", "expected"), [("first", [12.5, 37.5]), ("second", [13.5, 37.5]), ("both", [12.5, 13.5])]
)
async def test_dst_overlap_is_stored_and_has_its_effect(overlap: str, expected: list[float]) -> None:
    record = await stored(cron="30 2 * * *", timezone="Europe/Berlin", dst_overlap=overlap)
    assert hours(record, AUTUMN, 2) == expected


async def test_start_end_and_dates_are_stored_and_have_their_effect() -> None:
    record = await stored(
        every="6h",
        start=datetime(2027, 3, 28, tzinfo=UTC),
        end=datetime(2027, 3, 30, tzinfo=UTC),
        skip_on=[date(2027, 3, 29)],
    )
    assert hours(record, SPRING, 9) == [12.0, 18.0, 24.0, 30.0]
    assert "skip_on" not in record.facts


async def test_a_function_is_asked_by_the_worker_that_fires() -> None:
    app = App("shop")
    asked: list[date] = []

    def every_day(day: date) -> bool:
        asked.append(day)
        return True

    @app.schedule("s", every="1s", skip_on=every_day)
    async def never() -> None:
        raise AssertionError("its slot was skipped")

    async with Worker(app, heartbeat_enabled=False) as worker:
        await until(lambda: len(worker.told(ScheduleSkipped)) >= 2)
        (record,) = [each for each in await worker.store.schedules.all() if each.name == "s"]
        assert [job for job in await worker.jobs() if job.schedule == "s"] == []
    assert record.facts["skip_on"].endswith("every_day")
    assert (record.fired, record.last_outcome) == (0, "skipped")
    assert record.skipped >= 2
    assert len(asked) >= 2
