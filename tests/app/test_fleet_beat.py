"""The worker's sign of life: what it says, what it brings back, and what the worker makes of that."""

from __future__ import annotations

from typing import Any

from tests.supervision.fakes import Published, SteppingClock
from workfleet.app.fleet import FleetBeat
from workfleet.errors import StoreUnavailable
from workfleet.events import WorkerInstructed
from workfleet.model.fleet import Instruction, ProcessIdentity, WorkerRecord
from workfleet.stores.memory.store import MemoryStore


class Exchange:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.active, self.said = 3, list[str]()

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")


class Beating:
    """A beat every ten seconds, on a clock that only it moves."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.fleet: Any = MemoryStore("test", self.clock).fleet
        self.record = WorkerRecord(id="w", identity=ProcessIdentity("host", "boot", 1, "1"))
        self.exchange, self.published = Exchange(), Published()
        self.then: list[Instruction | None] = []
        self.beat = FleetBeat(
            self.fleet,
            self.record,
            self.exchange,  # type: ignore[arg-type]
            self.then.append,
            every_ms=10_000,
            clock=self.clock,
            publish=self.published.append,
        )

    async def told(self, instruction: Instruction | None) -> None:
        assert await self.fleet.instruct("w", instruction)
        await self.clock.run(self.beat, 20)


async def test_it_says_how_many_jobs_run() -> None:
    beating = Beating()
    await beating.fleet.register(beating.record)
    await beating.clock.run(beating.beat, 10)
    (record,) = await beating.fleet.workers()
    assert (record.active, record.seen_ms - record.started_ms) == (3, 10_000)
    assert (beating.exchange.said, beating.then, beating.published) == ([], [], [])


async def test_each_change_of_the_instruction_is_heard_once() -> None:
    beating = Beating()
    await beating.fleet.register(beating.record)
    for instruction in ("quiet", None, "quiet", "stop"):
        await beating.told(instruction)
    assert beating.exchange.said == ["pause", "resume", "pause", "pause"]
    assert beating.then == ["quiet", None, "quiet", "stop"]
    told = [(event.worker, event.instruction) for event in beating.published.of(WorkerInstructed)]
    assert told == [("w", "quiet"), ("w", "work"), ("w", "quiet"), ("w", "stop")]


async def test_a_record_that_was_deleted_is_registered_again_without_an_instruction() -> None:
    beating = Beating()
    await beating.fleet.register(beating.record)
    await beating.told("quiet")
    await beating.fleet.forget("w")
    await beating.clock.run(beating.beat, 10)
    assert [(record.id, record.instruction) for record in await beating.fleet.workers()] == [("w", None)]
    assert beating.exchange.said == ["pause", "resume"]


async def test_a_store_that_is_down_changes_nothing() -> None:
    beating = Beating()
    await beating.fleet.register(beating.record)
    await beating.told("quiet")
    beat, beating.fleet.beat = beating.fleet.beat, _down
    await beating.clock.run(beating.beat, 30)
    beating.fleet.beat = beat
    await beating.clock.run(beating.beat, 10)
    assert (beating.exchange.said, beating.then) == (["pause"], ["quiet"])


async def _down(*_: object, **__: object) -> None:
    raise StoreUnavailable("test", "down")
