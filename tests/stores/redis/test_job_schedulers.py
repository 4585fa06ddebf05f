"""What a claim makes of BullMQ's job schedulers, at a time that the test gives. `tests/node` compares with Node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
import pytest_asyncio

from tests.stores.redis.bullmq_side import entries, fields, schedule, texts
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.jobs import UNDECODABLE, JobRecord, JobState
from workfleet.ports.jobs import ClaimRequest, TakeOver, Want
from workfleet.stores.redis.crons import next_run
from workfleet.stores.redis.store import RedisStore

MINUTE = 60_000
NOW = 1_800_000_000_000  # on the minute, 2027-01-15 08:00 UTC


class Moment:
    now = NOW


@pytest.fixture
def moment() -> Moment:
    return Moment()


@pytest_asyncio.fixture
async def store(server: Server, moment: Moment) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(
        server.url, app="shop", clock=SystemClock(), prefix="bull", test_now_ms=lambda: moment.now
    )
    yield opened
    await opened.close()


async def claimed(store: RedisStore, token: str = "t1") -> list[JobRecord]:
    return await store.jobs.claim(ClaimRequest("w", token, 30_000, (Want("q", 10),)))


def following(server: Server) -> dict[str, str]:
    """The next job of scheduler s, by what is waited for; empty where there is none."""
    at = server.ask("ZSCORE", "bull:q:repeat", "s")
    assert isinstance(at, bytes)
    waiting = texts(server.ask("ZRANGE", "bull:q:delayed", 0, -1)) + texts(server.ask("LRANGE", "bull:q:wait", 0, -1))
    assert waiting in ([], [f"repeat:s:{at.decode()}"])
    return fields(server, f"bull:q:{waiting[0]}") if waiting else {}


@pytest.mark.parametrize(
    ("at", "repeat", "expected"),
    [
        (NOW, {"every": MINUTE}, NOW + MINUTE),
        (NOW - 5, {"every": MINUTE}, NOW - 5 + MINUTE),
        (NOW - MINUTE, {"every": MINUTE}, NOW),
        # Missed ones collapse into the next on the grid of the interval.
        (NOW - 90_001, {"every": MINUTE}, NOW + MINUTE),
        (NOW - 10 * MINUTE + 7, {"every": MINUTE, "offset": 7}, NOW + 7),
        (NOW, {"every": MINUTE, "limit": 2}, NOW + MINUTE),
        (NOW, {"every": MINUTE, "limit": 1}, None),
        (NOW, {"every": MINUTE, "limit": 5, "count": 5}, None),
        (NOW, {"every": MINUTE, "endDate": NOW}, NOW + MINUTE),
        (NOW, {"every": MINUTE, "endDate": NOW - 1}, None),
        (NOW, {"pattern": "*/5 * * * *"}, NOW + 5 * MINUTE),
        (NOW, {"pattern": "30 9 * * *", "tz": "Europe/Berlin"}, NOW + 30 * MINUTE),
        (NOW, {"pattern": "0 9 * * *", "tz": "UTC", "endDate": NOW + 60 * MINUTE}, NOW + 60 * MINUTE),
        (NOW, {"pattern": "0 9 * * *", "tz": "UTC", "endDate": NOW + 60 * MINUTE - 1}, None),
        (NOW, {"pattern": "0 9 * * *", "tz": "UTC", "startDate": NOW + 90 * MINUTE}, NOW + 25 * 60 * MINUTE),
        (NOW, {"pattern": "0 9 * * *", "tz": "UTC", "startDate": "2027-01-16T08:59:59.000Z"}, NOW + 25 * 60 * MINUTE),
        (NOW, {"pattern": "0 0 * * *", "tz": "UTC", "limit": 1}, None),
    ],
)
async def test_when_the_next_one_is(
    store: RedisStore, server: Server, at: int, repeat: dict[str, Any], expected: int | None
) -> None:
    first = schedule(server, "q", "s", at, repeat)
    assert [record.id for record in await claimed(store)] == [first]
    job = following(server)
    made = fields(server, "bull:q:repeat:s")["ic"]
    if expected is None:
        assert (job, made) == ({}, "1")
        return
    assert (job["rjk"], job["name"], job["data"], made) == ("s", "s", '{"a":1}', "2")
    assert server.ask("ZSCORE", "bull:q:repeat", "s") == str(expected).encode()
    assert (int(job["timestamp"]), int(job["delay"])) == (NOW, max(expected - NOW, 0))
    assert json.loads(job["opts"])["repeat"]["count"] == repeat.get("count", 1) + 1


async def test_what_the_next_one_is(store: RedisStore, server: Server) -> None:
    more = {"priority": 2, "backoff": 40, "prevMillis": NOW, "nothing": None, "de": {"id": "d"}}
    repeat = {"pattern": "* * * * *", "tz": "UTC", "immediately": True}
    schedule(server, "q", "s", NOW, repeat, **more)
    await claimed(store)
    job = following(server)
    assert json.loads(job.pop("opts")) == {
        "attempts": 0, "backoff": {"type": "fixed", "delay": 40}, "de": {"id": "d"}, "delay": MINUTE,
        "jobId": f"repeat:s:{NOW + MINUTE}", "prevMillis": NOW + MINUTE, "priority": 2, "repeatJobKey": "s",
        "repeat": {"count": 2, "pattern": "* * * * *", "tz": "UTC"}, "timestamp": NOW,
    }  # fmt: skip
    assert job == {
        "name": "s", "data": '{"a":1}', "timestamp": str(NOW), "delay": str(MINUTE), "priority": "2", "rjk": "s",
        "deid": "d",
    }  # fmt: skip
    assert entries(server, "q")[-2:] == [
        {"event": "added", "jobId": f"repeat:s:{NOW + MINUTE}", "name": "s"},
        {"event": "delayed", "jobId": f"repeat:s:{NOW + MINUTE}", "delay": str(NOW + MINUTE)},
    ]


async def test_one_that_was_promoted_is_followed_by_what_follows_its_own_time(
    store: RedisStore, server: Server
) -> None:
    later = NOW + 10 * MINUTE
    schedule(server, "q", "s", later, {"pattern": "* * * * *", "tz": "UTC"}, prevMillis=later)
    await claimed(store)
    assert server.ask("ZSCORE", "bull:q:repeat", "s") == str(later + MINUTE).encode()


async def test_a_repeated_claim_makes_no_second_one(store: RedisStore, server: Server, moment: Moment) -> None:
    schedule(server, "q", "s", NOW, {"every": MINUTE})
    first = await claimed(store)
    moment.now += 10
    assert [each.id for each in await claimed(store)] == [each.id for each in first]
    assert fields(server, "bull:q:repeat:s")["ic"] == "2"
    assert [each["event"] for each in entries(server, "q")] == ["active", "added", "delayed"]


async def test_who_takes_a_job_over_makes_it_where_its_worker_did_not(
    store: RedisStore, server: Server, moment: Moment
) -> None:
    job_id = schedule(server, "q", "s", NOW, {"every": MINUTE})
    await claimed(store)
    # As after a crash between the claim and what follows from it.
    server.ask("DEL", f"bull:q:repeat:s:{NOW + MINUTE}", "bull:q:delayed")
    server.ask("ZADD", "bull:q:repeat", NOW, "s")
    moment.now += 31_000
    (taken,) = await store.jobs.take_over(TakeOver("other", "t2", 30_000))
    assert taken.id == job_id
    assert following(server)["delay"] == str(MINUTE - 31_000)


async def test_where_the_next_one_is_there_already(store: RedisStore, server: Server) -> None:
    schedule(server, "q", "s", NOW, {"every": MINUTE})
    there = f"repeat:s:{NOW + MINUTE}"
    server.ask("HSET", f"bull:q:{there}", "name", "old", "timestamp", 1)
    await claimed(store)
    assert entries(server, "q")[-1] == {"event": "duplicated", "jobId": there}
    assert fields(server, f"bull:q:{there}")["name"] == "old"
    assert fields(server, "bull:q:repeat:s")["ic"] == "1"


async def test_removed_or_moved_by_somebody_else_it_is_left_alone(store: RedisStore, server: Server) -> None:
    schedule(server, "q", "s", NOW, {"every": MINUTE})
    server.ask("ZADD", "bull:q:repeat", NOW + 1, "s")
    schedule(server, "q", "gone", NOW, {"every": MINUTE})
    server.ask("ZREM", "bull:q:repeat", "gone")
    assert len(await claimed(store)) == 2
    assert server.ask("EXISTS", "bull:q:delayed") == 0


async def test_a_repeatable_job_of_v4_makes_none(store: RedisStore, server: Server) -> None:
    for scheduler, made in (("n:i:::60000", 0), ("n:i::UTC:* * * * *", 0), ("n:i:x::60000", 1)):
        schedule(server, "q", scheduler, NOW, {"every": MINUTE})
        server.ask("HDEL", f"bull:q:repeat:{scheduler}", "ic")
        (record,) = await claimed(store, token=scheduler)
        assert record.name == "n"
        assert server.ask("ZCARD", "bull:q:delayed") == made


@pytest.mark.parametrize(
    ("repeat", "reason"),
    [
        ({"pattern": "H * * * *"}, "'H' cannot be read"),
        ({"pattern": "* * * * *", "tz": "Mars/Base"}, "there is no time zone 'Mars/Base'"),
        ({"pattern": "* * * * *", "every": 5}, "it needs one of every and pattern, and has both"),
        ({"pattern": "* * * * *", "startDate": "soon"}, "Invalid isoformat string"),
    ],
)
async def test_one_that_cannot_be_followed_does_not_run(
    store: RedisStore, server: Server, repeat: dict[str, Any], reason: str
) -> None:
    job_id = schedule(server, "q", "s", NOW, repeat)
    assert await claimed(store) == []
    (record,) = await store.jobs.get([job_id])
    assert record is not None
    assert record.failure is not None
    assert (record.state, record.outcome) == (JobState.FAILED, UNDECODABLE)
    assert "the next run of its job scheduler cannot be computed" in record.failure.message
    assert reason in record.failure.message
    # It goes on from there, once it can be read and is retried.
    server.ask("HSET", f"bull:q:{job_id}", "opts", json.dumps({"repeat": {"every": MINUTE}}))
    server.ask("HDEL", "bull:q:repeat:s", "pattern", "every", "tz", "startDate")
    assert await store.jobs.retry([job_id]) == [True]
    assert [record.id for record in await claimed(store, "t2")] == [job_id]
    assert following(server)["delay"] == str(MINUTE)


async def test_its_next_job_is_not_deleted_or_purged(store: RedisStore, server: Server) -> None:
    first = schedule(server, "q", "s", NOW, {"every": MINUTE})
    await claimed(store)
    waiting = f"repeat:s:{NOW + MINUTE}"
    assert await store.jobs.delete([first, waiting]) == [False, False]
    assert await store.jobs.purge("q", list(JobState)) == 0
    assert following(server)["delay"] == str(MINUTE)
    server.ask("ZREM", "bull:q:repeat", "s")
    assert await store.jobs.delete([waiting]) == [True]


async def test_a_cancelled_run_is_followed_by_the_next(store: RedisStore, server: Server) -> None:
    schedule(server, "q", "s", NOW, {"every": MINUTE})
    await claimed(store)
    assert await store.jobs.cancel([f"repeat:s:{NOW + MINUTE}"]) == ["cancelled"]
    assert following(server)["delay"] == str(2 * MINUTE)


@pytest.mark.parametrize(
    ("pattern", "after", "zone", "expected"),
    [
        # What cron-parser 5.10.3 answers. The clock goes forward on 2027-03-28 at 02:00, back on 2027-10-31 at 03:00.
        ("30 2 * * *", "2027-03-27T02:30:00+01:00", "Europe/Berlin", "2027-03-28T03:30:00+02:00"),
        ("0 */2 * * *", "2027-03-28T00:00:00+01:00", "Europe/Berlin", "2027-03-28T03:00:00+02:00"),
        ("*/20 2 * * *", "2027-03-28T03:00:00+02:00", "Europe/Berlin", "2027-03-29T02:00:00+02:00"),
        ("*/20 2 * * *", "2027-10-31T02:40:00+02:00", "Europe/Berlin", "2027-11-01T02:00:00+01:00"),
        ("*/20 2 * * *", "2027-10-31T02:10:00+01:00", "Europe/Berlin", "2027-10-31T02:20:00+01:00"),
        ("0 * * * *", "2027-10-31T02:00:00+02:00", "Europe/Berlin", "2027-10-31T02:00:00+01:00"),
        ("0 0 * * *", "2027-09-04T19:00:00-04:00", "America/Santiago", "2027-09-06T00:00:00-03:00"),
        ("0/15 * * * *", "2027-01-01T00:00:00+00:00", "UTC", "2027-01-01T00:15:00+00:00"),
        ("@weekdays", "2027-01-01T00:00:00+00:00", "UTC", "2027-01-04T00:00:00+00:00"),
        ("12 * * *", "2027-01-01T00:00:00+00:00", "UTC", "2027-01-01T12:00:00+00:00"),
        ("0 0 * * 5-7", "2027-01-02T00:00:00+00:00", "UTC", "2027-01-03T00:00:00+00:00"),
        ("0 0 13 * FRI", "2027-01-09T00:00:00+00:00", "UTC", "2027-01-13T00:00:00+00:00"),
    ],
)
def test_patterns_as_node_reads_them(pattern: str, after: str, zone: str, expected: str) -> None:
    begin, end = (round(datetime.fromisoformat(text).timestamp() * 1000) for text in (after, expected))
    assert next_run(pattern, begin, zone) == end
