"""What a fleet that was stopped for an hour makes of its missed slots, on any store with a clock that a test moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.schedules.rig import HOUR, MINUTE, NOON, SECOND, Process, record
from workfleet import catch_up
from workfleet.events import ScheduleFired, ScheduleLate, ScheduleMissed, ScheduleSkipped
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every

POLICIES: list[tuple[Any, list[int], int]] = [
    ("once", [60], 59),
    ("skip", [60], 59),
    (catch_up(10), list(range(51, 61)), 50),
    (catch_up(1), [60], 59),
    (catch_up(100), list(range(1, 61)), 0),
]
"""The policy; the slots that run after an hour, in minutes after it began; and how many are missed."""


@dataclass
class Fleet:
    """One process after the other on one store; `begun` are the runs in their order."""

    process: Process
    begun: list[JobRecord]

    async def work(self, until_ms: int) -> None:
        """Fire what is due and run it, one run at a time, up to an instant."""
        while True:
            wait_ms = await self.process.scheduler.fire_due()
            claimed = await self.process.claim()
            assert len(claimed) <= 1, "runs overlap"
            self.begun += claimed
            await self.process.settle(claimed)
            if not claimed and wait_ms:
                if self.process.clock.now_ms() + wait_ms > until_ms:
                    return
                self.process.at(self.process.clock.now_ms() + wait_ms)

    def minutes(self) -> list[int]:
        """The slots of the runs, in minutes after noon."""
        return [(job.slot_ms - NOON) // MINUTE for job in self.begun if job.slot_ms is not None]

    async def stored(self) -> ScheduleRecord:
        (stored,) = await self.process.store.schedules.get(["s"])
        assert stored is not None
        return stored


async def an_hour(process: Process, missed: Any, slots: list[int], count: int) -> None:
    """A schedule each minute whose fleet stands still from noon to one o'clock, five seconds after which it is back."""
    fleet = Fleet(process, [])
    await process.store.schedules.merge([record(when=Every(MINUTE), missed=missed)])
    await fleet.work(NOON)
    assert fleet.minutes() == [0]
    process.events.clear()
    process.at(NOON + HOUR + 5 * SECOND)
    back = Fleet(process, [])
    await back.work(NOON + HOUR + 50 * SECOND)
    assert back.minutes() == slots
    assert len({job.id for job in back.begun}) == len(slots)
    stored = await back.stored()
    assert (stored.fired, stored.missed_count, stored.skipped, stored.coalesced) == (1 + len(slots), count, 0, 0)
    assert stored.fired + stored.missed_count == 61
    assert (stored.next_due_ms, stored.last_slot_ms) == (NOON + 61 * MINUTE, NOON + HOUR)
    late = len(slots) - 1  # all but the one of one o'clock
    assert (stored.late, stored.last_outcome) == (late, "fired")
    told = [event.slot_ms for event in process.events if isinstance(event, ScheduleFired)]
    assert [(slot - NOON) // MINUTE for slot in told] == slots
    assert [event.count for event in process.told(ScheduleMissed)] == ([count] if count else [])
    assert len(process.told(ScheduleLate)) == late
    assert process.told(ScheduleSkipped) == []
    notes = [(note.status, note.count, (note.slot_ms - NOON) // MINUTE) for note in stored.notes]
    wanted = [("missed", count, 1)] * (count > 0) + [("late", 1, slot) for slot in slots[:-1]]
    assert notes == wanted[-10:]
    assert all(note.reason for note in stored.notes)
    await back.work(NOON + 61 * MINUTE)
    assert back.minutes() == [*slots, 61]


async def an_hour_without_the_grace(process: Process) -> None:
    """With "skip", what is late is not run at all: a schedule every ten minutes, back five minutes after its slot."""
    fleet = Fleet(process, [])
    await process.store.schedules.merge([record(when=Every(10 * MINUTE), missed="skip")])
    await fleet.work(NOON)
    process.at(NOON + HOUR + 5 * MINUTE)
    await fleet.work(NOON + HOUR + 5 * MINUTE)
    assert fleet.minutes() == [0]
    stored = await fleet.stored()
    assert (stored.fired, stored.missed_count, stored.last_outcome) == (1, 6, "missed")
    assert stored.last_reason == 'it was not fired in time, and missed="skip" runs none that is late'
    await fleet.work(NOON + 70 * MINUTE)
    assert fleet.minutes() == [0, 70]


async def an_hour_with_a_run_that_died(process: Process) -> None:
    """The run of noon was going on when the fleet stopped: it is owed first, and nothing is skipped because of it."""
    await process.store.schedules.merge([record(when=Every(MINUTE), missed=catch_up(3))])
    await process.scheduler.fire_due()
    (running,) = await process.claim()
    process.at(NOON + HOUR + 5 * SECOND)
    turns = 0
    while process.clock.now_ms() < NOON + HOUR + 15 * SECOND:
        process.at(process.clock.now_ms() + await process.scheduler.fire_due())
        assert await process.claim() == []
        turns += 1
    assert turns <= 50, "it asks without a pause while it waits"
    (stored,) = await process.store.schedules.get(["s"])
    assert stored is not None
    assert (stored.fired, stored.missed_count, stored.skipped) == (1, 57, 0)
    assert stored.next_due_ms == NOON + 58 * MINUTE
    await process.settle([running])
    back = Fleet(process, [])
    await back.work(NOON + HOUR + 50 * SECOND)
    assert back.minutes() == [58, 59, 60]
    stored = await back.stored()
    assert (stored.fired, stored.missed_count, stored.skipped) == (4, 57, 0)


async def a_takeover_in_the_middle(process: Process, other: Process) -> None:
    """The process that catches up is gone after some slots: another one goes on with the next, and none runs twice."""
    await process.store.schedules.merge([record(when=Every(MINUTE), missed=catch_up(10))])
    process.at(NOON + HOUR)
    first = Fleet(process, [])
    for _ in range(100):
        if len(first.begun) == 4:
            break
        wait_ms = await process.scheduler.fire_due()
        claimed = await process.claim()
        first.begun += claimed
        await process.settle(claimed)
        process.at(process.clock.now_ms() + wait_ms)
    assert first.minutes() == [51, 52, 53, 54]
    second = Fleet(other, [])
    await second.work(NOON + HOUR + 50 * SECOND)
    assert second.minutes() == [55, 56, 57, 58, 59, 60]
    stored = await second.stored()
    assert (stored.fired, stored.missed_count) == (10, 51)
