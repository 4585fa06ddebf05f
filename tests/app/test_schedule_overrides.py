"""What an operator says of a schedule by its name, in the environment or a file, over what the code says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.app.working import Worker, problems, start_problems
from workfleet import App
from workfleet.model.bounds import Bounds
from workfleet.model.missed import CatchUp
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import At, CronTiming, Every

HOUR = 3_600_000


def app(**options: Any) -> App:
    made = App("shop")

    @made.schedule("s", **options)
    async def scheduled() -> None: ...

    return made


async def stored(code: dict[str, Any], said: dict[str, Any]) -> ScheduleRecord:
    async with Worker(app(**code), heartbeat_enabled=False, jobs={"s": said}) as worker:
        (record,) = await worker.store.schedules.get(["s"])
        assert record is not None
        return record


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


HOURLY = {"every": "1h", "offset": "5m"}
DAILY = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "skip"}


@pytest.mark.parametrize(
    ("code", "said", "timing"),
    [
        (HOURLY, {"every": "2h"}, Every(2 * HOUR, offset_ms=300_000)),
        (HOURLY, {"offset": "10m"}, Every(HOUR, offset_ms=600_000)),
        (HOURLY, {"offset": None}, Every(HOUR)),
        (HOURLY, {"cron": "0 4 * * *"}, CronTiming("0 4 * * *")),
        (HOURLY, {"at": "2090-01-01T00:00", "timezone": "Asia/Tokyo"}, At(ms("2090-01-01T00:00+09:00"))),
        (HOURLY, {"start": "2090-01-01T00:00Z"}, Every(HOUR, 300_000, bounds=Bounds(ms("2090-01-01T00:00Z")))),
        (HOURLY, {"end": "2090-01-01T00:00Z"}, Every(HOUR, 300_000, bounds=Bounds(None, ms("2090-01-01T00:00Z")))),
        ({**HOURLY, "end": datetime(2090, 1, 1, tzinfo=UTC)}, {"end": None}, Every(HOUR, 300_000)),
        (HOURLY, {"skip_on": ["2090-01-01"]}, Every(HOUR, 300_000, bounds=Bounds(skip_on=("2090-01-01",)))),
        (DAILY, {"dst_gap": "shift"}, CronTiming("30 2 * * *", "Europe/Berlin")),
        (DAILY, {"dst_overlap": "both"}, CronTiming("30 2 * * *", "Europe/Berlin", "skip", "both")),
        (DAILY, {"every": "2h"}, Every(2 * HOUR)),
    ],
    ids=str,
)
async def test_when_it_is_due(code: dict[str, Any], said: dict[str, Any], timing: object) -> None:
    assert (await stored(code, said)).timing == timing


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"overlap": "queue_one"}, ("queue_one", "skip", 60_000)),
        ({"missed": "catch_up(7)"}, ("allow", CatchUp(7), 60_000)),
        ({"missed": "once"}, ("allow", "once", 60_000)),
        ({"expires": "5m"}, ("allow", "skip", 300_000)),
        ({"expires": None}, ("allow", "skip", None)),
    ],
    ids=str,
)
async def test_what_becomes_of_its_runs(said: dict[str, Any], expected: tuple[Any, ...]) -> None:
    record = await stored({"every": "1h", "overlap": "allow", "missed": "skip", "expires": "1m"}, said)
    assert (record.overlap, record.missed, record.job.expires_after_ms) == expected


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"missed": "never"}, "once, skip, or catch_up(n) with n from 1 to 1000"),
        ({"missed": "catch_up(0)"}, "once, skip, or catch_up(n) with n from 1 to 1000"),
        ({"start": "soon"}, "a date and time such as 2026-12-24T18:00"),
        ({"skip_on": ["xmas"]}, "a date such as 2026-12-24"),
        ({"overlap": "maybe"}, "one of skip, queue_one, allow, cancel_running"),
        ({"expires": "0s"}, "a duration from 1ms to 365d"),
    ],
    ids=str,
)
def test_what_is_wrong_stops_the_start(said: dict[str, Any], told: str) -> None:
    ((_, message),) = problems(app(every="1h"), heartbeat_enabled=False, jobs={"s": said}).items()
    assert told in message


async def test_two_kinds_of_timing_stop_the_start() -> None:
    found = await start_problems(
        app(every="1h"), heartbeat_enabled=False, jobs={"s": {"every": "1h", "at": "2090-01-01"}}
    )
    assert [message for message in found.values() if "give only one of every, at" in message]
