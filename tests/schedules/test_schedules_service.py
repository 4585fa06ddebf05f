"""`Schedules`: what user code and the command line do with schedules."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Struct

from tests.schedules.rig import HOUR, MINUTE, NOON, Process, record
from workfleet import catch_up
from workfleet.errors import NotFound, PayloadRejected, UsageError
from workfleet.model.jobs import JobState, RunOverrides
from workfleet.model.jobtypes import JobType
from workfleet.model.policy import fixed
from workfleet.model.timing import At, CronTiming, Manual


class Report(Struct):
    tenant: int


BUILD = JobType("build", Report, str, queue="reports")


def at(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


async def test_list_shows_everything() -> None:
    process = await Process.on_memory()
    facts = {
        "provider": "Cleanup", "method": "nightly", "target": "queue", "target_queue": "mails", "target_job": "send",
        "run_on_start": "process",
    }  # fmt: skip
    await process.store.schedules.merge(
        [
            record("cron", CronTiming("0 3 * * *", timezone="Europe/Berlin"), facts=facts, description="tidies up"),
            record("every", due=NOON),
            record("manual", Manual(), None),
            record("once", At(NOON)),
            record("off", enabled=False),
        ]
    )
    await process.schedules.pause("once")
    await process.scheduler.fire_due()
    cron, every, manual, off, once = await process.schedules.list()
    fired = await process.claim()
    assert asdict(cron) == {
        "name": "cron", "provider": "Cleanup", "method": "nightly", "description": "tidies up", "enabled": True,
        "run_on_start": "process", "type": "cron", "target": "queue", "cron": "0 3 * * *", "interval": None,
        "timezone": "Europe/Berlin", "queue": "mails", "queue_job": "send", "running": True,
        "next_due": at(NOON + 13 * HOUR), "last_slot": at(NOON), "last_outcome": "fired", "paused": False,
        "orphaned": False, "fired": 1, "skipped": 0, "missed": 0, "coalesced": 0, "late": 0, "last_reason": None,
        "from_code": True, "offset": None, "start": None, "end": None, "skip_on": (), "dst_gap": "shift",
        "dst_overlap": "first", "overlap": "skip", "missed_policy": "once", "jitter": None, "expires": None,
        "overdue": None,
    }  # fmt: skip
    assert cron.id == "cron"
    assert (every.type, every.interval, every.target, every.queue, every.queue_job) == (
        "interval", "15m", "inline", "shop-schedules", "every"
    )  # fmt: skip
    assert (manual.type, manual.next_due, manual.last_slot, manual.running) == ("manual", None, None, False)
    assert (off.enabled, off.next_due) == (False, None)
    assert (once.type, once.paused, once.running) == ("once", True, False)
    assert (await process.schedules.get("every")).running
    await process.settle(fired)
    assert not (await process.schedules.get("every")).running


async def test_running_counts_a_triggered_run_and_a_retry() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record(due=NOON + HOUR)])
    await process.schedules.trigger("s")
    assert (await process.schedules.get("s")).running
    await process.settle(await process.claim(), JobState.DELAYED)
    assert (await process.schedules.get("s")).running


async def test_an_unknown_name_lists_the_known_ones() -> None:
    process = await Process.on_memory()
    for ask in (process.schedules.get, process.schedules.trigger, process.schedules.pause, process.schedules.resume):
        with pytest.raises(NotFound, match=r"there is no schedule 'x'\. Known schedules: none"):
            await ask("x")
    await process.store.schedules.merge([record("b"), record("a")])
    with pytest.raises(NotFound, match="Known schedules: a, b"):
        await process.schedules.trigger("x")


# Trigger


async def test_trigger_makes_a_run_beside_the_slots() -> None:
    process = await Process.on_memory(NOON - MINUTE)
    await process.store.schedules.merge([record(jitter_ms=HOUR)])
    triggered = await process.schedules.trigger("s")
    assert (triggered.accepted, triggered.reason) == (True, None)
    assert triggered.ref is not None
    job = await triggered.ref.record()
    assert (job.schedule, job.slot_ms, job.state, job.due_ms) == ("s", None, JobState.WAITING, NOON - MINUTE)
    (stored,) = await process.store.schedules.all()
    assert (stored.next_due_ms, stored.fired) == (NOON, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("off", "the schedule 'off' is disabled"), ("orphan", "the schedule 'orphan' is orphaned: no code defines it")],
)
async def test_trigger_says_why_not(name: str, reason: str) -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record("off", enabled=False), record("orphan")])
    await process.store.schedules.merge([record("off", enabled=False)])
    triggered = await process.schedules.trigger(name)
    assert not triggered.accepted
    assert triggered.reason is not None
    assert triggered.reason.startswith(reason)
    assert await process.jobs() == []


async def test_trigger_is_refused_where_the_scheduler_is_off() -> None:
    enabled = await Process.on_memory()
    process = Process(enabled.store, enabled.clock, enabled=False)
    await process.store.schedules.merge([record()])
    triggered = await process.schedules.trigger("s")
    assert (triggered.accepted, triggered.reason) == (
        False, "the scheduler is switched off (WORKER_SCHEDULER_ENABLED=false)"
    )  # fmt: skip


async def test_a_paused_schedule_can_be_triggered_and_fires_after_resume() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record()])
    await process.schedules.pause("s")
    await process.scheduler.fire_due()
    assert await process.jobs() == []
    assert (await process.schedules.trigger("s")).accepted
    await process.run_all()
    await process.schedules.resume("s")
    await process.scheduler.fire_due()
    assert await process.slots() == [None, 0]


# Schedules that are added at run time


async def test_add_keeps_a_job_that_is_enqueued_at_each_slot() -> None:
    process = await Process.on_memory()
    info = await process.schedules.add(
        "report:7",
        BUILD(Report(7), priority=3, tags=["t"], delay="5s", timeout="1m", attempts=2),
        cron="0 * * * *",
        attempts=5,
        backoff="10s",
        description="hourly",
        jitter="1ms",
    )
    assert (info.queue, info.queue_job, info.timezone, info.description, info.target, info.type) == (
        "reports", "build", "Europe/Berlin", "hourly", "queue", "cron"
    )  # fmt: skip
    assert info.next_due == at(NOON + HOUR)
    process.at(NOON + HOUR + 1)
    await process.scheduler.fire_due()
    (job,) = await process.jobs()
    assert (job.queue, job.name, job.payload, job.priority, job.tags, job.schedule, job.slot_ms) == (
        "reports", "build", b'{"tenant":7}', 3, ("t",), "report:7", NOON + HOUR
    )  # fmt: skip
    assert job.due_ms == NOON + HOUR + 1 + 5_000
    assert job.run == RunOverrides(attempts=5, backoff=fixed("10s"), timeout_ms=60_000)


async def test_add_again_needs_replace_which_anchors_anew_and_keeps_the_counts() -> None:
    process = await Process.on_memory()
    await process.schedules.add("s", BUILD(Report(1)), every="1h")
    process.at(NOON + HOUR)
    await process.scheduler.fire_due()
    with pytest.raises(UsageError, match="a schedule named 's' exists: give replace=True"):
        await process.schedules.add("s", BUILD(Report(2)), every="1h")
    info = await process.schedules.add("s", BUILD(Report(2)), every="2h", replace=True)
    assert (info.interval, info.fired, info.next_due) == ("2h", 1, at(NOON + 2 * HOUR))
    (stored,) = await process.store.schedules.all()
    assert stored.job.payload == b'{"tenant":2}'


async def test_remove_is_for_what_was_added_and_for_orphans() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record("code"), record("orphan")])
    await process.store.schedules.merge([record("code")])
    await process.schedules.add("added", BUILD(Report(1)), at=at(NOON + 1))
    assert [await process.schedules.remove(name) for name in ("added", "added", "orphan")] == [True, False, True]
    with pytest.raises(UsageError, match="is defined in code: remove it there, or pause it here"):
        await process.schedules.remove("code")
    assert [info.name for info in await process.schedules.list()] == ["code"]


async def test_what_code_defines_is_not_replaced_at_run_time() -> None:
    """The next start would bring it back, and the two would fight."""
    process = await Process.on_memory()
    await process.store.schedules.merge([record("code")])
    with pytest.raises(UsageError, match="'code' is defined in code: give another name"):
        await process.schedules.add("code", BUILD(Report(1)), every="1h", replace=True)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "give one of cron=, every= and at="),
        ({"cron": "0 0 30 2 *"}, "schedule 's': "),
        ({"cron": "0 3 * * *", "timezone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ({"cron": "0 3 * * *", "every": "1h"}, "give only one of cron, every"),
        ({"every": "10ms"}, "an interval is at least 1s"),
        ({"every": "1h", "jitter": "soon"}, "is not a duration"),
        ({"every": "1h", "attempts": 0}, "attempts=0"),
        ({"every": "1h", "timeout": "-1s"}, "is negative"),
        ({"every": "1h", "missed": "never"}, "missed='never'"),
        ({"every": "1h", "overlap": "maybe"}, "overlap='maybe'"),
        ({"every": "1h", "enabled": "yes"}, "enabled='yes': it is True or False"),
        ({"every": "1h", "run_on_start": True}, "'run_on_start' is not for schedules that are added at run time"),
        ({"every": "1h", "evry": 1}, "'evry' is not for"),
        ({"at": datetime(2027, 1, 1, tzinfo=UTC)}, "it would never be due: its time has passed"),
    ],
)
async def test_what_makes_no_sense_is_refused(facts: Any, said: str) -> None:
    process = await Process.on_memory()
    with pytest.raises(UsageError) as refused:
        await process.schedules.add("s", BUILD(Report(1)), **facts)
    assert said in str(refused.value)
    assert str(refused.value).startswith("schedule 's': ")
    assert await process.schedules.list() == []


async def test_a_name_is_not_longer_than_that_of_a_queue() -> None:
    process = await Process.on_memory()
    with pytest.raises(UsageError, match=r"^schedule 'nnnnnnnnnnnnnnnnnnnn'…: a name has at most 200 characters$"):
        await process.schedules.add("n" * 201, BUILD(Report(1)), every="1h")
    assert (await process.schedules.add("n" * 200, BUILD(Report(1)), every="1h")).name == "n" * 200


@pytest.mark.parametrize("name", ["", " padded ", "two\nlines", "nul\0"])
async def test_a_name_is_text_that_a_person_can_read(name: str) -> None:
    process = await Process.on_memory()
    with pytest.raises(UsageError, match="a name is printable text"):
        await process.schedules.add(name, BUILD(Report(1)), every="1h")


async def test_a_job_that_two_runs_cannot_share_is_refused() -> None:
    process = await Process.on_memory()
    with pytest.raises(UsageError, match="its job has id="):
        await process.schedules.add("s", BUILD(Report(1), id="x"), every="1h")
    with pytest.raises(UsageError, match="its job has at="):
        await process.schedules.add("s", BUILD(Report(1), at=at(NOON)), every="1h")
    with pytest.raises(PayloadRejected):
        await process.schedules.add("s", BUILD("no report"), every="1h")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes a job such as"):
        await process.schedules.add("s", BUILD, every="1h")  # type: ignore[arg-type]


async def test_how_long_a_run_may_wait_is_the_schedule_s_to_say_else_its_job_s() -> None:
    process = await Process.on_memory()
    job = BUILD(Report(1), delay="1m", expires="1h")
    assert (await process.schedules.add("job", job, every="1d")).expires == "1h"
    assert (await process.schedules.add("schedule", job, every="1d", expires="10m")).expires == "10m"
    with pytest.raises(UsageError, match="expires='1m' is not after its job's delay='1m': no run would start"):
        await process.schedules.add("never", job, every="1d", expires="1m")


async def test_what_is_overdue_says_by_how_much() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record("s"), record("off", enabled=False), record("held")])
    await process.schedules.pause("held")
    assert [each.overdue for each in await process.schedules.list()] == [None, None, None]
    process.at(NOON + MINUTE)
    assert {each.name: each.overdue for each in await process.schedules.list()} == {
        "held": None, "off": None, "s": timedelta(minutes=1)
    }  # fmt: skip
    await process.scheduler.fire_due()
    assert (await process.schedules.get("s")).overdue is None


async def test_a_schedule_that_waits_for_the_end_of_its_run_is_not_overdue_while_somebody_tries_to_fire_it() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record("s", missed=catch_up(3), last_outcome="missed")])
    process.at(NOON + HOUR)
    while await process.scheduler.fire_due() == 0:
        pass
    assert (len(await process.claim()), await process.scheduler.fire_due()) == (1, 500)
    assert (await process.schedules.get("s")).overdue is None
    process.at(NOON + HOUR + MINUTE)
    overdue = (await process.schedules.get("s")).overdue
    assert overdue == timedelta(minutes=16), "nobody has tried it for a minute"


async def test_an_error_names_some_of_very_many_schedules() -> None:
    process = await Process.on_memory()
    await process.store.schedules.merge([record(f"s{number:04}") for number in range(1_021)])
    with pytest.raises(NotFound, match=r"Known schedules: s0000, .*, s0019 and 1,001 more$"):
        await process.schedules.pause("x")
