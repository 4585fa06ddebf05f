"""`TestClock` stands still, wakes sleepers exactly when it has been moved far enough, and never goes back."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.errors import UsageError
from workfleet.testing import TestClock
from workfleet.testing.clock import OwnTaskClock, Patience, instant_ms


def test_instants_are_read_in_utc_unless_they_say_otherwise() -> None:
    assert instant_ms("1970-01-01T00:00:01.5Z") == 1_500
    assert instant_ms("1970-01-01T00:00") == 0
    assert instant_ms("1970-01-01T02:00+01:00") == 3_600_000
    with pytest.raises(ValueError, match="tomorrow"):
        instant_ms("tomorrow")


async def test_it_moves_only_when_it_is_moved() -> None:
    clock = TestClock(10_000)
    await asyncio.sleep(0.01)
    assert (clock.now_ms(), clock.monotonic()) == (10_000, 0.0)
    clock.move_to(12_500)
    assert (clock.now_ms(), clock.monotonic()) == (12_500, 2.5)
    clock.move_to(11_000)
    assert (clock.now_ms(), clock.monotonic()) == (12_500, 2.5)


async def test_sleepers_wake_in_time_and_are_forgotten() -> None:
    clock, woken = TestClock(0), list[str]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleep(name, s)) for name, s in (("b", 2), ("a", 1), ("now", 0), ("tiny", 0.0001))]
    for _ in range(3):
        await asyncio.sleep(0)
    assert woken == ["now"]
    assert sorted(sleeper.due_ms for sleeper in clock.sleepers) == [1, 1_000, 2_000]
    assert {sleeper.task for sleeper in clock.sleepers} == {tasks[0], tasks[1], tasks[3]}
    clock.move_to(1_000)
    assert len(clock.sleepers) == 1  # woken is not asleep, even before it runs
    await asyncio.sleep(0)
    assert woken == ["now", "a", "tiny"]
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    assert list(clock.sleepers) == []
    clock.move_to(9_000)
    assert woken == ["now", "a", "tiny"]


@pytest.mark.parametrize(("seconds", "due_ms"), [(0.07, 70), (20.000000000000004, 20_000), (0.0705, 71)])
async def test_a_sleep_is_whole_milliseconds_and_never_shorter_than_asked(seconds: float, due_ms: int) -> None:
    clock = TestClock(0)
    task = asyncio.create_task(clock.sleep(seconds))
    await asyncio.sleep(0)
    assert [sleeper.due_ms for sleeper in clock.sleepers] == [due_ms]
    task.cancel()


async def test_who_moves_the_clock_cannot_wait_for_it() -> None:
    moved = TestClock(5)
    clock = OwnTaskClock(moved)
    clock.owner = asyncio.current_task()
    with pytest.raises(UsageError, match=r"fleet\.travel"):
        await clock.sleep(1)
    await clock.sleep(0)
    other = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    moved.move_to(1_005)
    await other
    assert (clock.now_ms(), clock.monotonic()) == (1_005, 1.0)


async def test_patience_ends_unless_something_happens() -> None:
    async def wait_for_ever(patience: Patience) -> None:
        while True:
            await patience.pause()

    patience = Patience(30)
    with pytest.raises(TimeoutError):
        await wait_for_ever(patience)
    patience.renew()
    await patience.pause()
