"""The run ledger is written from events: one row for each attempt, batches, and a broken store that breaks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from tests.schedules.rig import NOON, turns, until
from workfleet.bus import Bus
from workfleet.events import (
    Event,
    JobClaimed,
    JobRecovered,
    JobSettled,
    LedgerDropped,
    ScheduleCoalesced,
    ScheduleMissed,
    ScheduleSkipped,
    StoreTrouble,
)
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.schedules.ledger import Ledger
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing import FaultyStore
from workfleet.testing.clock import TestClock

E = TypeVar("E", bound=Event)
KEEP = LedgerKeep(age_ms=86_400_000, count=1_000)


class Rig:
    """A ledger on a store whose calls fail as told, and the bus that it hears."""

    def __init__(self, *, keep: LedgerKeep = KEEP, limit: int = 10_000) -> None:
        self.clock = TestClock(NOON)
        self.store = FaultyStore(MemoryStore("shop", self.clock))
        self.bus, self.events = Bus(), list[Event]()
        self.bus.subscribe(self.events.append)
        self.ledger = Ledger(
            self.store.ledger, keep, worker="w1", clock=self.clock, publish=self.bus.publish, limit=limit
        )
        self.bus.subscribe(self.ledger)

    def ends(self, job: str, **said: object) -> None:
        """A run of the schedule "s" is settled, unless said otherwise."""
        facts: dict[str, object] = {
            "name": "s", "queue": "q", "state": "completed", "outcome": "completed", "attempt": 1, "duration_ms": 90,
            "started_ms": NOON - 70, "ended_ms": NOON,
            "schedule": "s", "slot_ms": NOON,
        }  # fmt: skip
        self.bus.publish(JobSettled(id=job, **{**facts, **said}))  # type: ignore[arg-type]

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def rows(self, schedule: str = "s") -> list[LedgerRow]:
        """Oldest first."""
        return (await self.store.ledger.history(schedule, 100_000))[::-1]

    async def jobs(self) -> list[str | None]:
        return [row.job_id for row in await self.rows()]

    async def passes(self, ms: int) -> None:
        """Let time pass for the ledger's loop, which must have come to rest."""
        await turns()
        self.clock.move_to(self.clock.now_ms() + ms)
        await turns()

    @property
    def written(self) -> int:
        """How often the store was asked to write."""
        return self.store.calls.count("ledger.record")


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    """A rig whose ledger's loop runs."""
    made = Rig()
    serving = asyncio.create_task(made.ledger.serve())
    yield made
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def bare(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Rows without their ids, which are random."""
    return [LedgerRow(**{name: getattr(row, name) for name in row.__struct_fields__} | {"id": ""}) for row in rows]


async def test_an_attempt_is_a_row_whoever_ended_it() -> None:
    rig = Rig()
    rig.ends("a", outcome="failed", state="delayed", attempt=2, error="ValueError: no")
    rig.bus.publish(
        JobRecovered(
            id="b",
            name="s",
            queue="q",
            how="it was killed by SIGKILL",
            state="waiting",
            worker="w9",
            outcome="crashed",
            attempt=1,
            started_ms=NOON - 500,
            schedule="s",
            slot_ms=None,
        )
    )
    assert await rig.ledger.flush()
    assert bare(await rig.rows()) == [
        LedgerRow(
            id="", at_ms=NOON, schedule="s", outcome="failed", slot_ms=NOON, job_id="a", attempt=2,
            started_ms=NOON - 70, worker="w1", error="ValueError: no",
        ),
        LedgerRow(
            id="", at_ms=NOON, schedule="s", outcome="crashed", slot_ms=None, job_id="b", attempt=1,
            started_ms=NOON - 500, worker="w9", error="it was killed by SIGKILL",
        ),
    ]  # fmt: skip


async def test_slots_without_a_run_are_rows_with_their_reason() -> None:
    rig = Rig()
    rig.bus.publish(ScheduleSkipped(schedule="s", slot_ms=NOON - 9, reason="its run a is not finished"))
    rig.bus.publish(ScheduleSkipped(schedule="s", slot_ms=NOON - 8, reason="holidays", count=2))
    rig.bus.publish(ScheduleCoalesced(schedule="s", slot_ms=NOON - 7, reason="a waits already", job_id="a"))
    rig.bus.publish(ScheduleMissed(schedule="s", slot_ms=NOON - 99, count=3, reason="nobody was there"))
    rig.bus.publish(ScheduleMissed(schedule="s", slot_ms=NOON - 5, count=1))
    await rig.ledger.flush()
    facts: dict[str, Any] = {"id": "", "at_ms": NOON, "schedule": "s", "worker": "w1"}
    assert bare(await rig.rows()) == [
        LedgerRow(outcome="skipped", slot_ms=NOON - 9, error="its run a is not finished", **facts),
        LedgerRow(outcome="skipped", slot_ms=NOON - 8, error="holidays", count=2, **facts),
        LedgerRow(outcome="coalesced", slot_ms=NOON - 7, error="a waits already", job_id="a", **facts),
        LedgerRow(outcome="missed", slot_ms=NOON - 99, error="nobody was there", count=3, **facts),
        LedgerRow(outcome="missed", slot_ms=NOON - 5, **facts),
    ]


async def test_jobs_of_no_schedule_and_the_products_own_are_none_of_its_business() -> None:
    rig = Rig()
    rig.ends("a", schedule=None, slot_ms=None)
    rig.ends("b", housekeeping=True)
    assert rig.ledger.route(JobClaimed) is None
    await rig.ledger.flush()
    assert rig.store.calls == []


async def test_what_happens_together_is_written_together(rig: Rig) -> None:
    for number in range(90):
        rig.ends(f"j{number}")
    await rig.passes(100)
    await until(lambda: rig.written == 1)
    assert await rig.jobs() == [f"j{number}" for number in range(90)]
    # Nothing to write costs nothing.
    await rig.passes(60_000)
    assert rig.written == 1


async def test_more_than_one_batch_is_written_in_order() -> None:
    rig = Rig()
    for number in range(250):
        rig.ends(f"j{number}")
    assert await rig.ledger.flush()
    assert rig.written == 3
    assert await rig.jobs() == [f"j{number}" for number in range(250)]


async def test_a_store_that_refuses_is_told_once_and_rows_wait_for_it(rig: Rig) -> None:
    async def next_try() -> None:
        await rig.passes(1_000)
        await rig.passes(100)

    rig.store.fail_randomly(1, seed=1, when=("before",))
    await rig.passes(100)
    for number in range(5):
        rig.ends(f"j{number}")
        await next_try()
    assert rig.written == 5
    assert [trouble.what for trouble in rig.told(StoreTrouble)] == ["writing the run ledger"]
    rig.store.recover()
    await next_try()
    assert await rig.jobs() == [f"j{number}" for number in range(5)]
    # The next outage is another one.
    rig.store.fail("ledger.record", number=rig.written + 1)
    rig.ends("last")
    await rig.passes(100)
    assert len(rig.told(StoreTrouble)) == 2
    await next_try()
    assert (await rig.jobs())[-1] == "last"
    assert rig.ledger.dropped == 0


async def test_a_lost_reply_writes_nothing_twice() -> None:
    rig = Rig()
    rig.store.fail("ledger.record", when="after")
    rig.ends("a")
    assert not await rig.ledger.flush()
    rig.ends("b")
    assert await rig.ledger.flush()
    assert await rig.jobs() == ["a", "b"]


async def test_a_store_that_is_broken_in_its_own_way_is_no_other_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()

    async def breaks(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(rig.store._store.ledger, "record", breaks)
        rig.ends("a")
        assert not await rig.ledger.flush()
        assert not await rig.ledger.flush()
    assert [trouble.error for trouble in rig.told(StoreTrouble)] == ["a bug"]
    assert await rig.ledger.flush()
    assert await rig.jobs() == ["a"]


async def test_the_buffer_is_bounded_and_what_it_cannot_hold_is_told() -> None:
    rig = Rig(limit=3)
    rig.store.fail_randomly(1, seed=1, when=("before",))
    rig.ends("first")
    assert not await rig.ledger.flush()
    for number in range(5):
        rig.ends(f"j{number}")
    assert rig.ledger.dropped == 2
    assert rig.told(LedgerDropped) == []
    rig.store.recover()
    assert await rig.ledger.flush()
    assert await rig.jobs() == ["first", "j2", "j3", "j4"]
    (dropped,) = rig.told(LedgerDropped)
    assert dropped.count == 2
    assert "ledger.record" in dropped.error


async def test_the_last_flush_writes_what_is_left() -> None:
    rig = Rig()
    serving = asyncio.create_task(rig.ledger.serve())
    rig.ends("a")
    await turns()
    await rig.ledger.finish(1_000)
    serving.cancel()
    assert await rig.jobs() == ["a"]
    assert rig.told(LedgerDropped) == []


async def test_a_store_that_hangs_does_not_hold_up_the_stop() -> None:
    rig = Rig()
    rig.store.fail("ledger.record", hang="1h")
    rig.ends("a")
    rig.ends("b")
    async with asyncio.timeout(5):
        await rig.ledger.finish(50)
    assert rig.told(LedgerDropped) == [LedgerDropped(count=2, error="the store did not answer within 50 ms")]


async def test_a_long_error_is_cut() -> None:
    rig = Rig()
    rig.ends("a", outcome="failed", error="x" * 9_000)
    await rig.ledger.flush()
    (row,) = await rig.rows()
    assert row.error == "x" * 2_000


async def test_retention_goes_to_the_store_with_the_rows() -> None:
    rig = Rig(keep=LedgerKeep(age_ms=1_000, count=2))
    for number in range(4):
        rig.ends(f"j{number}")
    await rig.ledger.flush()
    assert await rig.jobs() == ["j2", "j3"]
    rig.clock.move_to(NOON + 1_001)
    rig.ends("late", ended_ms=NOON + 1_001)
    await rig.ledger.flush()
    assert await rig.jobs() == ["late"]
