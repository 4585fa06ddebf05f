"""Job schedulers made by Node's `upsertJobScheduler`: our claims move them on as Node's own do."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, finish, returned, working
from tests.stores.redis.servers import Server
from workfleet.ids import new_token
from workfleet.model.jobs import JobState
from workfleet.stores.redis.crons import next_run
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
HOUR = 3_600_000
_MAKING_MS = 5_000
"""So long a job may take to be made, on a busy machine; slots are an hour apart."""
TEMPLATE = {
    "name": "report",
    "data": {"to": ["Ä", 7], "none": None},
    "opts": {
        "attempts": 4,
        "priority": 3,
        "backoff": 250,
        "removeOnComplete": {"age": 60, "count": 5},
        "removeOnFail": True,
        "keepLogs": 9,
        "lifo": True,
        "telemetry": {"metadata": "trace", "omitContext": True},
    },
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "every": ({"every": HOUR}, None),
    "every with a template": ({"every": HOUR}, TEMPLATE),
    "every with an offset": ({"every": HOUR, "offset": 1_234}, {"data": 5}),
    "every with limit left": ({"every": HOUR, "limit": 2}, None),
    "every at its limit": ({"every": HOUR, "limit": 1}, None),
    "every with an end": ({"every": HOUR, "endDate": {"$now": 60_000}}, None),
    "every from a start": ({"every": HOUR, "startDate": {"$now": -5_000}}, None),
    "pattern": ({"pattern": "0 0 1 1 *", "immediately": True}, TEMPLATE),
    "pattern in a zone": ({"pattern": "0 30 2 29 2 *", "tz": "America/New_York", "immediately": True}, None),
    "pattern in a zone without a name": ({"pattern": "15 10 2 3 *", "immediately": True}, None),
    "pattern at its limit": ({"pattern": "0 0 1 1 *", "immediately": True, "limit": 1}, None),
    "pattern with its end before its next": (
        {"pattern": "0 0 1 1 *", "immediately": True, "endDate": {"$now": 1_000}}, None,
    ),
    "pattern with its end after its next": (
        {"pattern": "0 0 1 1 *", "immediately": True, "tz": "UTC", "endDate": "2100-01-01T00:00:00.000Z"}, None,
    ),
    "deduplicated": ({"every": HOUR}, {"opts": {"deduplication": {"id": "d"}}}),
}  # fmt: skip


def ask(server: Server, *parts: str | int) -> Any:
    return server.ask(*parts)


def pairs(flat: list[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def seen(server: Server, queue: str, scheduler: str, first: str) -> dict[str, Any]:
    """What is stored of a scheduler, its next job, and what was told of it; instants by what they mean."""
    prev = int(first.rsplit(":", 1)[1])
    score = ask(server, "ZSCORE", f"bull:{queue}:repeat", scheduler)
    at = int(score)
    moved = at != prev
    job = pairs(ask(server, "HGETALL", f"bull:{queue}:repeat:{scheduler}:{at}")) if moved else {}

    def meaning(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: meaning(inner) for name, inner in value.items() if name != "delay"}
        text = str(value)
        if text != str(at) and text.isdecimal() and abs(int(text) - time.time() * 1000) < 120_000:
            return "NOW"
        return text.replace(str(at), "NEXT").replace(str(prev), "PREV")

    if moved:
        # What is waited for, as the job was made, may differ by the time that making it took.
        assert abs(int(job["timestamp"]) + int(job["delay"]) - at) <= _MAKING_MS
        assert abs(json.loads(job["opts"])["delay"] - int(job["delay"])) <= _MAKING_MS
        job["opts"] = meaning(json.loads(job["opts"]))
    events = [pairs(each[1]) for each in ask(server, "XRANGE", f"bull:{queue}:events", "-", "+")]
    every = pairs(ask(server, "HGETALL", f"bull:{queue}:repeat:{scheduler}"))
    return {
        "moved": moved,
        "by": at - prev if every.get("every") and moved else at if moved else 0,
        "hash": meaning(every),
        "job": meaning(job),
        "events": [meaning(each) for each in events if each["event"] != "drained"],
        "made": ask(server, "GET", f"bull:{queue}:id"),
        "due": [meaning(m.decode()) for m in ask(server, "ZRANGE", f"bull:{queue}:delayed", 0, -1)],
        "jobs": len(ask(server, "KEYS", f"bull:{queue}:repeat:{scheduler}:*")) - (1 if moved else 0),
    }


async def first_job(queue: Opened, scheduler: str, options: dict[str, Any], template: dict[str, Any] | None) -> str:
    made = await queue.call("upsertJobScheduler", scheduler, options, template or {})
    job_id: str = made["id"]
    if made["delay"]:
        await queue.job(job_id, "promote")
    return job_id


@pytest.mark.parametrize("case", CASES)
async def test_what_a_claim_makes(node: NodeRoom, store: RedisStore, server: Server, case: str) -> None:
    options, template = CASES[case]
    stored = []
    for name in ("n", "o"):
        queue = await node.queue(name)
        job_id = await first_job(queue, "r", options, template)
        if name == "n":
            worker = await node.worker("n", work=False)
            assert (await worker.call("getNextJob", "token"))["id"] == job_id
        else:
            assert [each.id for each in await claim(store, queue="o")] == [job_id]
        stored.append(seen(server, name, "r", job_id))
        if stored[-1]["jobs"]:
            ask(server, "DEL", f"bull:{name}:{job_id}:lock")
    theirs, ours = stored
    assert ours.pop("jobs") >= 1
    assert theirs.pop("jobs") >= 1
    if "every" in options and "offset" not in options:
        # The grid begins with the first job, and promotions run it before its time.
        assert theirs["hash"].pop("offset", None) is not None
        assert ours["hash"].pop("offset", None) is not None
    assert ours == theirs
    assert theirs["moved"] is not ("at its limit" in case or "before its next" in case)


async def test_one_whose_id_looks_like_an_old_repeatable_job(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    scheduler = "report:7::Europe/Berlin:60000"
    first = await first_job(queue, scheduler, {"every": 60_000}, None)
    (record,) = await claim(store)
    assert record.id == first
    assert (await queue.call("getJobScheduler", scheduler))["iterationCount"] == 2


async def test_removed_while_its_job_runs_it_does_not_come_back(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    await first_job(queue, "r", {"every": 60_000}, None)
    assert await queue.call("removeJobScheduler", "r")
    (record,) = await claim(store)
    await finish(store, record, returned(1))
    assert await queue.call("getJobSchedulers") == []
    assert (await queue.call("getJobCounts"))["delayed"] == 0


async def next_slot(queue: Opened) -> str:
    """The one job that the scheduler has ahead: made ready, so that no slot is waited for, or missed by a slow
    machine."""
    (ahead,) = await queue.call("getJobs", ["delayed", "wait"], 0, -1, True)
    if await queue.job(ahead["id"], "getState") == "delayed":
        await queue.job(ahead["id"], "promote")
    return str(ahead["id"])


async def run_by_node(worker: Opened) -> str:
    token = new_token()
    given = await worker.call("getNextJob", token, {"block": False})
    await worker.job(given["id"], "moveToCompleted", "theirs", token, False)
    return str(given["id"])


async def run_by_us(store: RedisStore) -> str:
    (record,) = await claim(store)
    await finish(store, record, returned("ours"))
    return record.id


@pytest.mark.parametrize("repeat", [{"every": HOUR}, {"pattern": "0 * * * *", "tz": "Europe/Berlin"}])
async def test_a_hundred_slots_by_turns(node: NodeRoom, store: RedisStore, repeat: dict[str, Any]) -> None:
    queue, worker = await node.queue(), await node.worker(work=False)
    await queue.call("upsertJobScheduler", "r", {**repeat, "limit": 100}, {"name": "tick", "data": {"n": 1}})
    run = []
    for turn in range(100):
        ahead = await next_slot(queue)
        run.append(await (run_by_us(store) if turn % 2 else run_by_node(worker)))
        assert run[-1] == ahead
    assert_each_once(run, HOUR)
    assert (await queue.call("getJobScheduler", "r"))["iterationCount"] == 100
    assert await queue.call("getJobCounts", "completed", "delayed", "waiting", "active") == {
        "completed": 100, "delayed": 0, "waiting": 0, "active": 0,
    }  # fmt: skip


def assert_each_once(run: list[str], step_ms: int) -> None:
    """A hundred slots of the scheduler "r", none missing and none doubled."""
    slots = [int(job_id.removeprefix("repeat:r:")) for job_id in run]
    assert len(slots) == 100
    assert {after - before for before, after in itertools.pairwise(slots)} == {step_ms}


async def test_a_hundred_slots_with_both_at_work(node: NodeRoom, store: RedisStore) -> None:
    queue, worker = await node.queue(), await node.worker()
    begun = await queue.call("upsertJobScheduler", "r", {"every": HOUR, "limit": 100}, {"name": "ok"})
    async with working(store) as ours:
        for number in range(100):
            # The next one is there as soon as either side has claimed this one.
            job_id = f"repeat:r:{int(begun['id'].rsplit(':', 1)[1]) + HOUR * number}"
            async with asyncio.timeout(60):
                while (state := await queue.call("getJobState", job_id)) == "unknown":
                    await asyncio.sleep(0.005)
            if state == "delayed":
                await queue.job(job_id, "promote")
        async with asyncio.timeout(60):
            while (await queue.call("getJobCounts", "completed"))["completed"] < 100:
                await asyncio.sleep(0.05)
        by_us, by_node = [each.id for each in ours], [each.job for each in worker.ends()]
    assert_each_once(sorted(by_us + by_node), HOUR)
    assert by_us
    assert by_node


async def test_slots_that_are_waited_for(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    first = await first_job(queue, "r", {"every": 2_000, "limit": 4}, None)
    async with working(store) as ours:
        async with asyncio.timeout(60):
            while (await queue.call("getJobCounts", "completed"))["completed"] < 4:
                await asyncio.sleep(0.05)
        begin = int(first.rsplit(":", 1)[1])
        assert [each.id for each in ours] == [f"repeat:r:{begin + 2_000 * number}" for number in range(4)]
        assert all(each.started_ms is not None and each.started_ms >= int(each.id.rsplit(":", 1)[1]) for each in ours)


PATTERNS = (
    "* * * * *", "*/15 * * * *", "0 * * * *", "30 2 * * *", "0 3 * * *", "*/10 * * * * *", "15 30 2 * * *",
    "0 9 * * 1-5", "0 0 1 * *", "0 0 * * 0", "0 */2 * * *", "0,30 1-3 * * *", "59 23 L * *", "0 12 * * 1#2",
    "0 12 * * 5L", "0 0 13 * 5", "*/20 2 * * *", "0 0 29 2 *", "0/15 * * * *", "5/20 1/3 * * *", "@daily", "@weekdays",
    "@minutely", "0 12 * JAN,jul MON-FRI", "0 6 15,L * *", "*/7 */5 */3 */2 */2", "0 0 * * 5-7", "10 2,3 * * *",
    "12 * * *", "*/90 * * * *",
)  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Asia/Kolkata", "Africa/Casablanca")
# Around the changes of the clock in 2027, and a leap day.
STARTS = (
    1804993200000, 1806188400000, 1825023600000, 1825564800000, 1806807600000, 1820113200000, 1801965600000,
    1830297600000, 1835395200000,
)  # fmt: skip
SCRIPT = """
const { CronExpressionParser } = require('node:module').createRequire(process.argv[1] + '/')('cron-parser');
const asked = JSON.parse(require('node:fs').readFileSync(0));
const read = (pattern, tz, at) => CronExpressionParser.parse(pattern, { tz, currentDate: new Date(at) });
const next = (...said) => read(...said).next().getTime();
console.log(JSON.stringify(asked.map(([pattern, tz, at, steps]) => {
  const found = [];
  for (let step = 0; step < steps; step += 1) { at = next(pattern, tz, at); found.push(at); }
  return found;
})));
"""


@pytest.mark.timeout(300)
def test_patterns_mean_the_same_instants(packages: Path) -> None:
    hours = (-26, -1)
    asked = [
        (pattern, zone, start + hour * 3_600_000 + 61_500, 3)
        for pattern in PATTERNS for zone in ZONES for start in STARTS for hour in hours
    ]  # fmt: skip
    ran = subprocess.run(
        ["node", "-e", SCRIPT, str(packages)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    wrong = []
    for (pattern, zone, start, _), theirs in zip(asked, json.loads(ran.stdout), strict=True):
        ours = [next_run(pattern, at, zone) for at in (start, *theirs[:-1])]
        if ours != theirs:
            wrong.append((pattern, zone, theirs, ours))
    assert wrong == []


async def test_node_counts_a_run_that_we_cancelled(node: NodeRoom, store: RedisStore) -> None:
    queue = await node.queue()
    first = await first_job(queue, "r", {"every": 60_000}, None)
    begin = int(first.rsplit(":", 1)[1])
    assert [each.id for each in await claim(store)] == [first]
    waiting = f"repeat:r:{begin + 60_000}"
    assert await store.jobs.cancel([waiting]) == ["cancelled"]
    (record,) = await store.jobs.get([waiting])
    assert record is not None
    assert record.state is JobState.FAILED
    (scheduler,) = await queue.call("getJobSchedulers")
    assert (scheduler["next"], scheduler["iterationCount"]) == (begin + 120_000, 3)
