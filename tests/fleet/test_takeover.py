"""A process that would fire a slot is killed just before it: another one fires it on time, not an interval later."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.fleet.dying import by_own_clock, never_firing
from tests.soak.schedulers import context
from tests.soak.schedules import opened
from tests.soak.scheduling import run
from tests.soak.slot_soak import add_schedules, notes_in
from tests.soak.slot_verdict import Note
from tests.soak.slots import Plan

EVERY_MS = 4_000
ON_TIME_MS = 2_000
"""What a slot may be late with: for a second it may be in the hands of the one that dies, and a busy machine takes its
time. It is far less than the interval."""
TIMEOUT_S = 60
T = TypeVar("T")


class Processes:
    """Scheduler processes, by their numbers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.all: list[ForkServerProcess] = []

    def start(self, skew_ms: int = 0, **options: Any) -> None:
        number = len(self.all)
        self.all.append(context().Process(target=run, args=(self.plan, number, skew_ms), kwargs=options))
        self.all[-1].start()
        self.until(lambda: "up" in self.said(number), f"process {number} is up")

    def said(self, number: int) -> str:
        place = self.plan.folder / f"notes-{number}"
        return place.read_text() if place.exists() else ""

    def kill(self, number: int) -> None:
        self.all[number].kill()
        self.all[number].join()

    def fires(self) -> dict[tuple[str, int], Note]:
        """By slot; a slot that was fired twice fails the test."""
        found = [note for note in notes_in(self.plan.folder) if note.what == "fired"]
        by_slot = {note.slot: note for note in found}
        assert len(by_slot) == len(found), f"fired twice: {found}"
        return by_slot

    def until(self, look: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + TIMEOUT_S
        while not (found := look()):
            ended = [each.exitcode for each in self.all if each.exitcode not in (None, -9)]
            logs = "".join(place.read_text() for place in self.plan.folder.glob("log-*"))
            assert not ended, f"{what}: ended with {ended}\n{logs}"
            assert time.monotonic() < deadline, f"waited in vain: {what}\n{logs}"
            time.sleep(0.01)
        return found


@pytest.fixture(params=["sqlite", "redis"])
async def processes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Processes]:
    """None yet, on each store; two schedules, one of the code and one that was added."""
    with opened(request.param, tmp_path) as url:
        now_ms = time.time_ns() // 1_000_000
        made = Processes(Plan(tmp_path, url, 2, now_ms, now_ms + 3_600_000, EVERY_MS))
        await add_schedules(made.plan)
        yield made
        for each in made.all:
            each.kill()
            each.join()


def test_who_fired_last_is_killed_just_before_the_next_slot(processes: Processes) -> None:
    plan, name = processes.plan, processes.plan.name(0)
    processes.start()
    processes.start()
    seen = set(processes.fires())
    last = processes.until(lambda: max(set(processes.fires()) - seen, default=None), "a slot is fired by one of two")
    (victim,) = [number for number in (0, 1) if "fired {} {}".format(*last) in processes.said(number)]
    slots = [next(slot for slot in plan.slots(number) if slot > last[1] + EVERY_MS / 2) for number in (0, 1)]
    _sleep_until(min(slots) - 100)
    processes.kill(victim)
    for name, slot in zip((plan.name(0), plan.name(1)), slots, strict=True):
        _fired_on_time(processes, (name, slot), 1 - victim)


def test_who_has_begun_to_fire_is_killed(processes: Processes) -> None:
    """Its clock is ahead, so that it is the one who fires first; the other one's time comes after it has begun."""
    processes.start(0, opened=by_own_clock)
    processes.start(500, opened=never_firing)
    begun = processes.plan.folder / f"fires-{processes.all[1].pid}"
    processes.until(begun.exists, "the second one fires")
    processes.kill(1)
    slots = [each.split("@") for each in begun.read_text().split()]
    assert slots
    for name, slot in slots:
        _fired_on_time(processes, (name, int(slot)), 0)


def _fired_on_time(processes: Processes, slot: tuple[str, int], by: int) -> None:
    fired = processes.until(lambda: processes.fires().get(slot), "{} is fired at {}".format(*slot))
    assert fired.ns // 1_000_000 - slot[1] <= ON_TIME_MS
    assert "fired {} {}".format(*slot) in processes.said(by)


def _sleep_until(ms: int) -> None:
    assert ms / 1000 > time.time(), "the machine is too slow: the slot has come already"
    time.sleep(ms / 1000 - time.time())
