"""`Fleet` and time: exact slots across a change of the clocks, waits that are jumped over, and those that are not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.testing.shop import WELCOME, Cleanup, Emails, FakeSmtp, Smtp, Welcome, make_app
from workfleet import App, Job, LockBusy, Locks, NotFound, Schedules, Snooze, UsageError, catch_up, locked
from workfleet.events import ScheduleMissed, ScheduleSkipped
from workfleet.ports.clock import Clock
from workfleet.testing import Fleet


async def test_slots_are_exact_across_the_change_of_the_clocks() -> None:
    """In Berlin there is no 02:30 on 28 March 2027, and two on 31 October."""
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}, now="2027-03-26T12:00Z") as fleet:
        await fleet.travel("3d")
        assert (await fleet.get(Cleanup)).slots == [
            "2027-03-27T01:30:00+00:00",
            "2027-03-28T01:00:00+00:00",
            "2027-03-29T00:30:00+00:00",
        ]
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}, now="2027-10-30T12:00Z") as fleet:
        await fleet.travel("2d")
        assert (await fleet.get(Cleanup)).slots == ["2027-10-31T00:30:00+00:00", "2027-11-01T01:30:00+00:00"]


async def test_every_slot_on_the_way_fires_at_its_own_instant() -> None:
    smtp = FakeSmtp()
    async with Fleet(make_app(), replace={Smtp: smtp}, now="2027-01-01T12:05Z") as fleet:
        await fleet.travel("1h")
        assert [(run.slot, run.outcome) for run in await fleet.runs("remind")] == [
            (datetime(2027, 1, 1, 12, minute, tzinfo=UTC), "completed") for minute in (15, 30, 45)
        ] + [(datetime(2027, 1, 1, 13, 0, tzinfo=UTC), "completed")]
        assert smtp.sent == [1, 1, 1, 1]
        assert fleet.enqueued == [WELCOME(Welcome(1))] * 4
        assert fleet.clock.now_ms() == int(datetime(2027, 1, 1, 13, 5, tzinfo=UTC).timestamp() * 1000)
        assert [event for event in fleet.events if isinstance(event, ScheduleMissed)] == []
        with pytest.raises(NotFound, match=r"'remember'. Known schedules: Cleanup\.nightly, remind"):
            await fleet.runs("remember")


async def test_delays_wait_for_travel_and_the_clock_never_goes_back() -> None:
    smtp = FakeSmtp()
    async with Fleet(make_app(), replace={Smtp: smtp}, now="2027-01-01T12:00Z") as fleet:
        await fleet.enqueue(WELCOME(Welcome(7), delay="5m"))
        await fleet.enqueue(WELCOME(Welcome(8), at=datetime(2027, 1, 1, 12, 4, tzinfo=UTC)))
        await fleet.run_until_idle()
        assert smtp.sent == []
        await fleet.travel(timedelta(minutes=4, seconds=59))
        assert smtp.sent == [8]
        await fleet.travel(datetime(2027, 1, 1, 12, 5, tzinfo=UTC))
        assert smtp.sent == [8, 7]
        with pytest.raises(UsageError, match=r"it is 2027-01-01 12:05:00\+00:00, and the clock never goes back"):
            await fleet.travel(datetime(2027, 1, 1, 12, 4, tzinfo=UTC))


async def test_a_snooze_is_not_jumped_over() -> None:
    app, at = App("shop"), list[int]()

    @app.handler(queue="emails")
    async def poll(job: Job[None], clock: Clock) -> str:
        at.append(clock.now_ms() // 1000 % 100_000)
        if len(at) < 3:
            raise Snooze("1m")
        return "done"

    async with Fleet(app) as fleet:
        ref = await fleet.enqueue(poll.job(None))
        await fleet.run_until_idle()
        assert len(at) == 1
        await fleet.travel("2m")
        assert await ref.result() == "done"
        assert [later - earlier for earlier, later in pairwise(at)] == [60, 60]


async def test_a_run_that_sleeps_on_the_clock_is_waited_for_and_others_go_on() -> None:
    app, ended = App("shop"), list[str]()

    @app.handler(queue="slow")
    async def slow(job: Job[int], clock: Clock) -> None:
        await clock.sleep(job.data)
        ended.append(f"slow {job.data}")

    @app.schedule(every="1m")
    async def tick() -> None:
        ended.append("tick")

    async with Fleet(app, settings={"concurrency": 2}) as fleet:
        await fleet.enqueue_many(slow.job(seconds) for seconds in (90, 30, 45))
        await fleet.run_until_idle()
        assert ended == ["slow 30", "tick", "slow 45", "slow 90"]  # the third starts when the first slot is free
        await fleet.travel("1m")
        assert ended[4:] == ["tick"]


async def test_a_schedule_that_runs_longer_than_its_interval_skips() -> None:
    app = App("shop")

    @app.schedule(every="1m")
    async def long(clock: Clock) -> None:
        await clock.sleep(150)

    async with Fleet(app) as fleet:
        await fleet.travel("6m")
        slots = [run.slot.minute for run in await fleet.runs("long") if run.slot is not None]
        assert slots == [1, 4]
        assert [event.reason.startswith("its run") for event in fleet.events if isinstance(event, ScheduleSkipped)] == [
            True
        ] * 4


async def test_locks_are_renewed_while_a_run_sleeps() -> None:
    app = App("shop")

    @app.handler(queue="emails")
    @locked("ledger", ttl="10s")
    async def book(job: Job[None], clock: Clock) -> str:
        await clock.sleep(100)
        return "booked"

    async with Fleet(app) as fleet:
        ref = await fleet.enqueue(book.job(None))
        await fleet.travel("99s")
        assert await fleet.locks.is_locked("ledger") == "yes"
        with pytest.raises(LockBusy, match="test"):
            async with fleet.locks.lock("ledger", wait="0s"):
                pass
        with pytest.raises(UsageError, match="run_until_idle"):
            async with fleet.locks.lock("ledger", wait="1m"):
                pass
        await fleet.travel("1s")
        assert await ref.result() == "booked"
        async with fleet.locks.lock("ledger", ttl="10s") as lock:
            await fleet.travel("1h")
            lock.check()


async def test_a_lock_that_the_test_holds_makes_a_handler_wait() -> None:
    app = App("shop")

    @app.handler(queue="emails")
    async def book(job: Job[None], locks: Locks) -> str:
        async with locks.lock("ledger", wait="10s"):
            return "booked"

    async with Fleet(app) as fleet:
        ref = await fleet.enqueue(book.job(None))
        async with fleet.locks.lock("ledger"):
            await fleet.travel("5s")
        await fleet.travel("1s")
        assert await ref.result() == "booked"


async def test_what_happens_while_a_backoff_is_jumped_over_happens_at_its_instant() -> None:
    smtp = FakeSmtp(failing=1)
    async with Fleet(make_app(), replace={Smtp: smtp}, now="2027-01-01T12:14:59.5Z") as fleet:
        await fleet.enqueue(WELCOME(Welcome(7)))
        await fleet.run_until_idle()
        assert smtp.sent == [1, 7]
        assert [run.slot for run in await fleet.runs("remind")] == [datetime(2027, 1, 1, 12, 15, tzinfo=UTC)]


async def test_no_schedule_fires_while_the_scheduler_is_off() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}, settings={"scheduler_enabled": False}) as fleet:
        await fleet.travel("3d")
        assert list(await fleet.runs("remind")) == []
        assert (await fleet.schedules.trigger("remind")).accepted is False


async def test_triggered_and_run_time_schedules() -> None:
    smtp = FakeSmtp()
    async with Fleet(make_app(), replace={Smtp: smtp}) as fleet:
        assert (await fleet.schedules.trigger("remind")).accepted
        schedules = await fleet.get(Schedules)
        await schedules.add("farewell", Emails.goodbye.job(Welcome(3)), every="10m")
        await fleet.run_until_idle()
        assert [(run.slot, run.outcome) for run in await fleet.runs("remind")] == [(None, "completed")]
        await fleet.travel("10m")
        assert smtp.sent == [1, -3]
        assert [run.outcome for run in await fleet.runs("farewell")] == ["completed"]
        assert fleet.enqueued == [WELCOME(Welcome(1))]  # what a schedule itself starts is in its runs


async def test_a_run_that_never_ends_is_named() -> None:
    app, never = App("shop"), asyncio.Event()

    @app.handler(queue="emails")
    async def stuck(job: Job[None]) -> None:
        await never.wait()

    async with Fleet(app, patience="50ms") as fleet:
        ref = await fleet.enqueue(stuck.job(None))
        with pytest.raises(TimeoutError, match=rf"stuck \({ref.id}\)"):
            await fleet.run_until_idle()


async def test_a_minute_s_schedule_for_a_day_is_a_matter_of_seconds() -> None:
    app = App("shop")

    @app.schedule(every="1m")
    async def tick() -> None: ...

    async with asyncio.timeout(60):
        async with Fleet(app) as fleet:
            await fleet.travel("1d")
            assert len(await fleet.runs("tick")) == 1440


async def test_what_is_caught_up_with_begins_soon_after_the_run_before() -> None:
    app = App("clinic")
    began = list[datetime]()

    @app.schedule("rounds", every="15m", missed=catch_up(3))
    async def rounds(clock: Clock) -> None:
        began.append(datetime.fromtimestamp(clock.now_ms() / 1000, UTC))
        await clock.sleep(20)

    async with Fleet(app, now="2027-01-01T12:00:01Z") as fleet:
        await fleet.schedules.pause("rounds")
        await fleet.travel("1h")
        await fleet.schedules.resume("rounds")
        await fleet.travel("2m")
    assert len(began) == 3
    assert all(timedelta(seconds=20) <= late - early <= timedelta(seconds=21) for early, late in pairwise(began))
