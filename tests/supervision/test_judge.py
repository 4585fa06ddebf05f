"""When a worker counts as stuck."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.supervision.fakes import Published, SteppingClock
from workfleet.app.supervisor.judge import Judge
from workfleet.events import WorkerBlocked, WorkerDumped, WorkerStuck, WorkerWentOn
from workfleet.model.jobs import Claim
from workfleet.supervision.board import Board


@dataclass
class Patient:
    """What the judge sees of a worker, without a process. `told` are the seconds at which it was dumped and killed, or
    shown how its main thread stands."""

    clock: SteppingClock
    board: Board
    id: str = "w"
    index: int = 3
    stuck: str | None = None
    hello: Any = field(default_factory=lambda: SimpleNamespace(stuck_after_ms=600_000))
    told: list[tuple[str, float]] = field(default_factory=list)
    child: Any = field(default_factory=lambda: SimpleNamespace(pid=1))

    written: str = ""

    def dump(self, *, every_thread: bool) -> None:
        self.told.append(("dump" if every_thread else "show", self.clock.seconds - 1_000))
        self.written += "all of it" if every_thread else "main thread"

    def stacks(self) -> str:
        written, self.written = self.written, ""
        return written

    def running(self) -> list[str]:
        return [entry.shown for entry in self.board.entries() if entry.kind == "job"]

    def kill(self, why: str) -> None:
        self.told.append(("kill", self.clock.seconds - 1_000))


class Room:
    def __init__(self) -> None:
        self.clock, self.published = SteppingClock(), Published()
        self.patient = Patient(self.clock, Board.create(slots=4, clock=self.clock))
        run: Any = SimpleNamespace(living=lambda: iter([self.patient]), changed=SimpleNamespace(set=lambda: None))
        self.judge = Judge(run, clock=self.clock, publish=self.published.append)

    async def run(self, seconds: float, *, beating: bool) -> None:
        self.clock.at_step = self.patient.board.beat if beating else lambda: None
        await self.clock.run(self.judge, seconds)

    @property
    def board(self) -> Board:
        return self.patient.board


@pytest.fixture
def room() -> Room:
    return Room()


async def test_a_deadline_that_passed_by_thirty_seconds(room: Room) -> None:
    room.board.put(Claim("slow", "t", "q"), timeout_ms=10_000, label="mail.send")
    await room.run(39.5, beating=True)
    assert room.patient.stuck is None
    await room.run(4, beating=True)
    why = "job mail.send (slow) still runs 30 s after its deadline"
    assert room.patient.stuck == why
    assert room.patient.told[:2] == [("dump", 40.5), ("kill", 41.5)]
    jobs = ("mail.send (slow)",)
    assert room.published == [WorkerStuck(worker="w", pid=1, why=why, active=1, jobs=jobs, stack="all of it")]


async def test_a_run_that_has_ended_and_waits_for_the_store_is_not_stuck(room: Room) -> None:
    slot = room.board.put(Claim("a", "t", "q"), timeout_ms=10_000)
    await room.run(12, beating=True)
    room.board.ended(slot)
    await room.run(300, beating=True)
    assert room.patient.told == []


async def test_a_new_job_in_the_slot_has_its_own_time(room: Room) -> None:
    for number in range(5):
        slot = room.board.put(Claim(f"job-{number}", "t", "q"), timeout_ms=1)
        await room.run(25, beating=True)
        room.board.clear(slot)
    assert room.patient.told == []


async def test_a_loop_without_progress_and_without_deadlines(room: Room) -> None:
    room.board.put(Claim("a", "t", "q"))
    await room.run(300, beating=True)
    await room.run(598, beating=False)
    assert room.patient.stuck is None
    await room.run(3, beating=False)
    assert room.patient.stuck == "its event loop has made no progress for 600 s"


async def test_a_deadline_says_how_long_a_blocked_loop_is_all_right(room: Room) -> None:
    room.board.put(Claim("a", "t", "q"), timeout_ms=3_600_000)
    await room.run(1_000, beating=False)
    assert room.patient.told == []  # it has never beaten: nothing is known of its loop
    room.board.beat()
    await room.run(2_600, beating=False)
    assert [what for what, _ in room.patient.told] == ["show"]


async def test_one_that_hangs_before_it_says_hello_is_stuck_too(room: Room) -> None:
    room.patient.hello = None
    await room.run(599, beating=False)
    assert room.patient.stuck is None
    await room.run(3, beating=False)
    assert room.patient.stuck is not None


async def test_a_pause_of_the_whole_machine_is_nobodys_fault(room: Room) -> None:
    """A container that was frozen for an hour: the clock went on, nobody had a chance to run."""
    room.board.put(Claim("a", "t", "q"), timeout_ms=60_000)
    thawed = room.clock.seconds + 3_600

    def freeze_after_ten_seconds() -> None:
        if 1_010 <= room.clock.seconds < thawed:
            room.clock.seconds = thawed
        room.board.beat()

    room.clock.at_step = freeze_after_ten_seconds
    await room.clock.run(room.judge, 3_620)
    assert room.patient.told == []
    await room.clock.run(room.judge, 20)
    assert room.patient.stuck == "job a still runs 30 s after its deadline"


async def test_one_that_cannot_be_killed_is_killed_again_and_stays_stuck(room: Room) -> None:
    await room.run(606.5, beating=False)
    assert [what for what, _ in room.patient.told] == ["dump"] + ["kill"] * 6
    assert len(room.published) == 1


async def test_a_loop_that_stands_still_is_told_once_with_its_jobs_and_its_stack_and_so_is_its_end(room: Room) -> None:
    await room.run(20, beating=True)
    room.board.put(Claim("7", "t", "q"), label="mail.send")
    room.board.put_lock("ledger", "w:1", ttl_ms=60_000)
    await room.run(4, beating=False)
    assert (room.patient.told, room.published) == ([], [])
    await room.run(41, beating=False)
    jobs = ("mail.send (7)",)
    assert room.patient.told == [("show", 25)]
    blocked = WorkerBlocked(worker="w", index=3, pid=1, blocked_ms=6_000, active=1, jobs=jobs, stack="main thread")
    assert room.published == [blocked]
    assert blocked.message() == "the event loop of worker 3 (process 1) is blocked for 6000 ms; it runs mail.send (7)"
    await room.run(20, beating=True)
    ended = WorkerWentOn(worker="w", index=3, pid=1, blocked_ms=46_000, active=1, jobs=jobs)
    assert room.published == [blocked, ended]
    await room.run(8, beating=False)
    assert [type(event) for event in room.published[2:]] == [WorkerBlocked]  # each blocking anew


async def test_one_that_goes_on_before_it_was_told_is_told_at_once(room: Room) -> None:
    await room.run(2, beating=True)
    await room.run(5, beating=False)
    assert (room.patient.told, room.published) == ([("show", 7)], [])
    await room.run(2, beating=True)
    assert [type(event) for event in room.published] == [WorkerBlocked, WorkerWentOn]
    assert room.published[0].message().endswith("it runs no job")


async def test_a_pause_of_everything_blocks_no_loop(room: Room) -> None:
    thawed = room.clock.seconds + 3_600

    def freeze_after_ten_seconds() -> None:
        if 1_010 <= room.clock.seconds < thawed:
            room.clock.seconds = thawed  # nobody had a chance to beat
        elif room.clock.seconds < 1_010 or room.clock.seconds >= thawed + 2:
            room.board.beat()

    room.clock.at_step = freeze_after_ten_seconds
    await room.clock.run(room.judge, 3_620)
    assert (room.patient.told, room.published) == ([], [])


async def test_a_loop_that_has_ended_is_not_blocked(room: Room) -> None:
    """What a worker closes after its loop's last beat may take its time."""
    await room.run(2, beating=True)
    room.board.rest()
    await room.run(60, beating=False)
    assert (room.patient.told, room.published) == ([], [])


async def test_stacks_that_somebody_asked_for_by_hand_are_told_too(room: Room) -> None:
    await room.run(2, beating=True)
    room.patient.written = "by hand"
    await room.run(2, beating=True)
    assert room.published == [WorkerDumped(worker="w", pid=1, stack="by hand")]


def test_of_many_jobs_a_few_are_in_the_sentence() -> None:
    jobs = tuple(f"a ({number})" for number in range(20))
    event = WorkerStuck(worker="w", pid=1, why="why", active=900, jobs=jobs)
    said = "worker process 1 is stuck (why) and is killed; it runs a (0), a (1), a (2), a (3), a (4) and 895 more"
    assert event.message() == said
