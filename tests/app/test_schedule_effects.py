"""Each option of a schedule in an application that runs: what is said, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from workfleet import App, Job, catch_up
from workfleet.ports.clock import Clock
from workfleet.schedules.info import ScheduleInfo
from workfleet.testing import Fleet

START = "2027-01-01T00:00Z"


def plain(**options: Any) -> App:
    """An application of one schedule, whose run takes no time."""
    app = App("shop")

    @app.schedule("s", **options)
    async def scheduled() -> None: ...

    return app


async def slots(app: App, travel: str) -> list[str]:
    """When the runs of a while were due."""
    async with Fleet(app, now=START) as fleet:
        await fleet.travel(travel)
        return [clock(run.slot) for run in await fleet.runs("s")]


def clock(at: datetime | None) -> str:
    return "" if at is None else at.strftime("%H:%M")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cron": "30 9 * * *"}, ["09:30"]),
        ({"cron": "30 9 * * *", "timezone": "Europe/Berlin"}, ["08:30"]),
        ({"every": "8h"}, ["08:00", "16:00", "00:00"]),
        ({"every": "8h", "offset": "90m"}, ["01:30", "09:30", "17:30"]),
        ({"at": datetime(2027, 1, 1, 12, tzinfo=UTC)}, ["12:00"]),
        ({"every": "8h", "enabled": False}, []),
        ({"every": "8h", "start": datetime(2027, 1, 1, 9, tzinfo=UTC)}, ["16:00", "00:00"]),
        ({"every": "8h", "end": datetime(2027, 1, 1, 9, tzinfo=UTC)}, ["08:00"]),
        ({"every": "8h", "skip_on": ["2027-01-01"]}, ["00:00"]),
        ({}, []),
    ],
    ids=str,
)
async def test_when_it_is_due(options: Any, expected: list[str]) -> None:
    assert await slots(plain(**options), "1d") == expected


async def shown(app: App) -> ScheduleInfo:
    async with Fleet(app, now=START) as fleet:
        return await fleet.schedules.get("s")


async def test_what_it_is_about() -> None:
    assert (await shown(plain(every="1h", description="tidies up"))).description == "tidies up"
    assert not (await shown(plain(every="1h", enabled=False))).enabled


def failing(**options: Any) -> tuple[App, list[datetime]]:
    """An application whose schedule fails, and when it was tried."""
    app, tried = App("shop"), list[datetime]()

    @app.schedule("s", every="1d", **options)
    async def scheduled(clock: Clock) -> None:
        tried.append(datetime.fromtimestamp(clock.now_ms() / 1000, UTC))
        raise ConnectionError("not there")

    return app, tried


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({}, []),
        ({"attempts": 3}, [5, 5]),
        ({"attempts": 3, "backoff": "20s"}, [20, 20]),
        ({"attempts": 3, "retry": {ConnectionError: "7s"}}, [7, 7]),
        ({"attempts": 3, "retry": {OSError: None}}, []),
    ],
    ids=str,
)
async def test_how_often_it_is_tried(options: Any, waits: list[int]) -> None:
    app, tried = failing(**options)
    async with Fleet(app, now=START) as fleet:
        await fleet.schedules.trigger("s")
        await fleet.run_until_idle()
    assert [(after - before).total_seconds() for before, after in pairwise(tried)] == waits


def slow(seconds: float, **options: Any) -> tuple[App, list[str]]:
    """An application whose schedule takes so long, and the slots that its runs were for as they began."""
    app, began = App("shop"), list[str]()

    @app.schedule("s", **options)
    async def scheduled(job: Job[None], clock: Clock) -> None:
        began.append("" if job.slot is None else job.slot.strftime("%H:%M:%S"))
        await clock.sleep(seconds)

    return app, began


async def test_how_long_it_may_take() -> None:
    app = App("shop")

    @app.schedule("s", timeout="20ms")
    async def scheduled() -> None:
        await asyncio.sleep(60)

    async with Fleet(app, now=START) as fleet:
        await fleet.schedules.trigger("s")
        await fleet.run_until_idle()
        assert [run.outcome for run in await fleet.runs("s")] == ["timed_out"]


@pytest.mark.parametrize(
    ("overlap", "began", "ended"),
    [
        ("skip", ["00:01:00", "00:04:00", "00:07:00"], ["completed"] * 2),
        ("queue_one", ["00:01:00", "00:02:00", "00:04:00"], ["completed"] * 2),
        ("allow", [f"00:0{minute}:00" for minute in range(1, 8)], ["completed"] * 4),
        ("cancel_running", [f"00:0{minute}:00" for minute in range(1, 8)], ["cancelled"] * 6),
    ],
)
async def test_what_a_slot_does_while_a_run_goes_on(overlap: Any, began: Sequence[str], ended: list[str]) -> None:
    app, found = slow(140, every="1m", overlap=overlap)
    async with Fleet(app, now=START) as fleet:
        await fleet.travel("7m")
        assert found == began
        outcomes = [run.outcome for run in await fleet.runs("s")]
        assert [outcome for outcome in outcomes if outcome not in ("active", "delayed", "waiting")] == ended
        info = await fleet.schedules.get("s")
    counts = {"skipped": info.skipped, "coalesced": info.coalesced}
    assert (
        counts
        == {
            "skip": {"skipped": 4, "coalesced": 0},
            "queue_one": {"skipped": 0, "coalesced": 3},
            "allow": {"skipped": 0, "coalesced": 0},
            "cancel_running": {"skipped": 0, "coalesced": 0},
        }[overlap]
    )


@pytest.mark.parametrize(
    ("missed", "expected", "count"),
    [
        ("once", ["05:00"], 4),
        ("skip", [], 5),
        (catch_up(3), ["03:00", "04:00", "05:00"], 2),
    ],
    ids=str,
)
async def test_what_becomes_of_slots_that_passed(missed: Any, expected: list[str], count: int) -> None:
    async with Fleet(plain(every="1h", missed=missed), now=START) as fleet:
        await fleet.schedules.pause("s")
        await fleet.travel("5h30m")
        await fleet.schedules.resume("s")
        await fleet.travel("10m")
        assert [clock(run.slot) for run in await fleet.runs("s")] == expected
        assert (await fleet.schedules.get("s")).missed == count
