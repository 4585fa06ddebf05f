"""A clock that was a year ahead and was set right again: the schedules go on."""

from __future__ import annotations

from tests.schedules.rig import MINUTE, NOON, Process, record
from workfleet.events import ScheduleSkipped
from workfleet.model.timing import Every


async def test_a_schedule_in_a_wrong_clocks_future_comes_back() -> None:
    process = await Process.on_memory()
    year_ms = 365 * 86_400_000
    await process.store.schedules.put(record(when=Every(MINUTE), due=NOON + year_ms), replace=False)
    await process.scheduler.fire_due()
    (stored,) = await process.store.schedules.all()
    assert stored.next_due_ms == NOON + 60_000
    assert await process.jobs() == []
    assert [event.slot_ms for event in process.told(ScheduleSkipped)] == [NOON + year_ms]
    process.at(NOON + 60_000)
    await process.scheduler.fire_due()
    assert [job.slot_ms for job in await process.jobs()] == [NOON + 60_000]
