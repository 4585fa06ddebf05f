"""The module options of the source documents, each seen to have its effect."""

import asyncio
from datetime import UTC, datetime

import pytest
from dishka import Provider, Scope

from workfleet import (
    App,
    ConfigError,
    Job,
    JobType,
    LockBusy,
    LockModule,
    Module,
    QueueingDisabled,
    QueueWorker,
    SchedulerModule,
    handler,
    locked,
    scheduled_job,
)
from workfleet.events import Declared, ScheduleSkipped
from workfleet.ports.clock import Clock
from workfleet.settings import LockSettings, Settings
from workfleet.testing import Fleet


class Jobs:
    """What says nothing itself."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @scheduled_job(name="hourly", cron="30 9 * * *")
    async def hourly(self) -> None:
        self.ran.append("hourly")

    @scheduled_job(name="fails", interval="1d")
    async def fails(self) -> None:
        self.ran.append("fails")
        raise ValueError("no")

    @scheduled_job(name="slow", interval="1d")
    async def slow(self, clock: Clock) -> None:
        self.ran.append("slow")
        await clock.sleep(60)


def app(*modules: Module) -> App:
    return App("shop", modules=modules, jobs=[Jobs])


async def attempts(fleet: Fleet, schedule: str) -> list[tuple[str, int]]:
    """Outcome and start of each attempt of a triggered run, in seconds since the trigger."""
    triggered, now = await fleet.schedules.trigger(schedule), fleet.clock.now_ms()
    assert triggered.ref is not None
    await fleet.run_until_idle()
    return [(each.outcome, (each.started_ms - now) // 1000) for each in await fleet.attempts(triggered.ref)]


async def test_without_the_module_a_run_is_tried_once() -> None:
    async with Fleet(app()) as fleet:
        assert await attempts(fleet, "fails") == [("failed", 0)]


async def test_the_module_gives_the_document_s_defaults() -> None:
    """One retry after 5 s, no overlap, no timeout, no jitter."""
    async with Fleet(app(SchedulerModule()), now="2027-01-01T09:29Z") as fleet:
        assert await attempts(fleet, "fails") == [("failed", 0), ("failed", 5)]
        await fleet.travel("1m")
        (run,) = await fleet.runs("hourly")
        assert (run.slot, run.outcome) == (datetime(2027, 1, 1, 9, 30, tzinfo=UTC), "completed")
        first, again = await fleet.schedules.trigger("slow"), await fleet.schedules.trigger("slow")
        assert (first.accepted, again.accepted) == (True, False)
        await fleet.run_until_idle()
        assert [run.outcome for run in await fleet.runs("slow")] == ["completed"]


async def test_defaults_of_the_module_are_merged_and_can_be_unset() -> None:
    module = SchedulerModule(default_job_options={"retries": 2, "overlap": "allow", "enabled": True})
    async with Fleet(app(module)) as fleet:
        assert await attempts(fleet, "fails") == [("failed", 0), ("failed", 5), ("failed", 10)]
        assert [(await fleet.schedules.trigger("slow")).accepted for _ in range(2)] == [True, True]

    class Own:
        @scheduled_job(name="own", retries=0, prevent_overlap=True, retry_delay="1s")
        async def own(self) -> None:
            raise ValueError("no")

    own = App("shop", modules=[SchedulerModule(default_job_options={"retries": 3})], jobs=[Own])
    async with Fleet(own) as fleet:
        assert await attempts(fleet, "own") == [("failed", 0)]
    async with Fleet(app(SchedulerModule(default_job_options={"enabled": False}))) as fleet:
        assert [schedule.enabled for schedule in await fleet.schedules.list()] == [False] * 3
        await fleet.travel("2d")
        assert (await fleet.get(Jobs)).ran == []


async def test_a_module_s_timeout_ends_runs_and_none_unsets_it() -> None:
    app, ran = (
        App("shop", modules=[SchedulerModule(default_job_options={"timeout": "30ms", "retries": 0})]),
        list[str](),
    )

    @app.schedule("cut")
    async def cut() -> None:
        await asyncio.sleep(5)

    @app.schedule("whole", timeout=None)
    async def whole() -> None:
        await asyncio.sleep(0.06)
        ran.append("whole")

    async with Fleet(app) as fleet:
        for name in ("cut", "whole"):
            await fleet.schedules.trigger(name)
        await fleet.run_until_idle()
        assert [run.outcome for run in await fleet.runs("cut")] == ["timed_out"]
        assert ran == ["whole"]


async def test_jitter_delays_a_slot_by_less_than_it_and_never_a_trigger() -> None:
    at: list[int] = []
    app = App("shop", modules=[SchedulerModule(default_job_options={"jitter": "10m"})])

    @app.schedule("spread", every="1h")
    async def spread(clock: Clock) -> None:
        at.append(clock.now_ms() % 3_600_000)

    async with Fleet(app, now="2027-01-01T00:00Z") as fleet:
        await fleet.travel("24h10m")
        assert len(at) == 24
        assert all(0 <= late <= 600_000 for late in at)
        assert len(set(at)) > 12
        await fleet.travel("5m")
        before = len(at)
        await fleet.schedules.trigger("spread")
        await fleet.run_until_idle()
        assert at[before:] == [fleet.clock.now_ms() % 3_600_000]


async def test_jitter_comes_before_the_overlap_check() -> None:
    app, ran = App("shop"), list[str]()

    @app.schedule("long", every="1m", jitter="50s")
    async def long(clock: Clock) -> None:
        ran.append("start")
        await clock.sleep(59)

    async with Fleet(app) as fleet:
        await fleet.travel("30m")
        skipped = [event for event in fleet.events if isinstance(event, ScheduleSkipped)]
        # A slot is skipped only where the run before still goes on at the jittered instant, not at the slot itself.
        assert len(ran) + len(skipped) in (29, 30)
        assert len(ran) > 15
        assert skipped


async def test_the_time_zone_of_the_module_is_that_of_expressions_without_one() -> None:
    async with Fleet(app(SchedulerModule(timezone="Asia/Tokyo")), now="2027-01-01T00:00Z") as fleet:
        await fleet.travel("1h")
        assert [run.slot for run in await fleet.runs("hourly")] == [datetime(2027, 1, 1, 0, 30, tzinfo=UTC)]
    async with Fleet(app(), now="2027-01-01T00:00Z") as fleet:
        await fleet.travel("10h")
        assert [run.slot for run in await fleet.runs("hourly")] == [datetime(2027, 1, 1, 9, 30, tzinfo=UTC)]


async def test_the_module_s_switches_are_the_worker_s() -> None:
    module = SchedulerModule(enabled=False, enable_queueing=False, default_queue="main", timezone="Europe/Berlin")
    async with Fleet(app(module), now="2027-01-01T09:00Z") as fleet:
        core = await fleet.get(Settings)
        assert (core.scheduler_enabled, core.queue_enabled, core.default_queue) == (False, False, "main")
        assert core.timezone == "Europe/Berlin"
        await fleet.travel("1d")
        assert (await fleet.get(Jobs)).ran == []
        refused = await fleet.schedules.trigger("hourly")
        assert (refused.accepted, refused.reason is not None) == (False, True)


async def test_queues_of_the_module_are_listened_to() -> None:
    @QueueWorker("emails")
    class Emails:
        @handler("x")
        async def x(self, job: Job[None]) -> None: ...

    async with Fleet(App("shop", modules=[SchedulerModule(queues=["cleanup-queue"])], jobs=[Emails])) as fleet:
        ref = await fleet.enqueue(JobType("unknown", object, queue="cleanup-queue")(1))
        await fleet.run_until_idle()
        # It is claimed, so an unknown name is found out.
        assert (await ref.record()).outcome == "unknown_job"


async def test_at_most_so_many_scheduled_runs_at_once() -> None:
    app, running, most = App("shop", modules=[SchedulerModule(max_concurrent=2)]), list[int](), list[int]()

    for number in range(5):

        @app.schedule(f"s{number}")
        async def work(job: Job[None], clock: Clock) -> None:
            running.append(1)
            most.append(len(running))
            await clock.sleep(10)
            running.pop()

    async with Fleet(app) as fleet:
        for number in range(5):
            await fleet.schedules.trigger(f"s{number}")
        await fleet.run_until_idle()
    assert (len(most), max(most)) == (5, 2)


@pytest.mark.parametrize("said", [True, False])
async def test_the_start_log_lists_every_job_unless_it_is_switched_off(*, said: bool) -> None:
    async with Fleet(app(SchedulerModule(log_registered_jobs=said)), now="2027-01-01T00:00Z") as fleet:
        lines = [event.line for event in fleet.events if isinstance(event, Declared)]
    assert lines == (
        [
            "schedule fails, every 1d, next 2027-01-02T00:00:00Z",
            "schedule hourly, cron '30 9 * * *' in UTC, next 2027-01-01T09:30:00Z",
            "schedule slow, every 1d, next 2027-01-02T00:00:00Z",
        ]
        if said
        else []
    )


async def test_the_lock_module_s_options_are_those_of_every_lock() -> None:
    module = LockModule(default_ttl="2m", key_prefix="shop-lock", retries=2, retry_delay="400ms")
    locks_app = App("shop", modules=[module])

    @locks_app.handler(queue="ledger", attempts=1)
    @locked("ledger", on_busy="raise")
    async def book(job: Job[None]) -> None: ...

    async with Fleet(locks_app) as fleet, fleet.locks.lock("ledger"):
        (grant,) = await fleet.locks.list()
        assert grant.name == "shop-lock:ledger"
        assert grant.expires_ms - fleet.clock.now_ms() == 120_000
        ref = await fleet.enqueue(book.job(None))
        before = fleet.clock.now_ms()
        await fleet.run_until_idle()
        (attempt,) = await fleet.attempts(ref)
        assert attempt.failure is not None
        assert attempt.failure.code == LockBusy.code
        assert 400 <= fleet.clock.now_ms() - before <= 1_200  # two more tries, each 400 ms later, jittered


async def test_a_factory_makes_a_module_s_options_from_what_is_injected() -> None:
    class Host:
        ttl = "7m"

    def make(host: Host) -> dict[str, str]:
        return {"default_ttl": host.ttl, "key_prefix": "made"}

    hosts = Provider(scope=Scope.APP)
    hosts.provide(Host)
    own = App("shop", modules=[LockModule(factory=make)], providers=[hosts])
    async with Fleet(own, settings={"lock": {"key_prefix": "said"}}) as fleet:
        made = await fleet.get(LockSettings)
        assert (str(made.default_ttl), made.key_prefix, made.retries) == ("7m", "said", 3)

    def wrong(host: Host) -> int:
        return 1

    with pytest.raises(ConfigError, match="the module's factory returned int"):
        async with Fleet(App("shop", modules=[LockModule(factory=wrong)], providers=[hosts])) as fleet:
            await fleet.get(LockSettings)


async def test_with_queueing_off_enqueue_says_so_and_schedules_go_on() -> None:
    async with Fleet(app(), settings={"queue_enabled": False}, now="2027-01-01T09:00Z") as fleet:
        await fleet.travel("1h")
        assert (await fleet.get(Jobs)).ran == ["hourly"]

        @handler("x", queue="emails")
        async def x(job: Job[None]) -> None: ...

        with pytest.raises(QueueingDisabled, match="Set WORKER_QUEUE_ENABLED=true"):
            await fleet.enqueue(x.job(None))


async def test_a_queue_s_job_is_tried_three_times_with_a_growing_wait() -> None:
    own = App("shop")

    @own.handler(queue="emails")
    async def fails(job: Job[None]) -> None:
        raise ValueError("no")

    async with Fleet(own) as fleet:
        ref, now = await fleet.enqueue(fails.job(None)), fleet.clock.now_ms()
        await fleet.run_until_idle()
        assert [each.started_ms - now for each in await fleet.attempts(ref)] == [0, 1_000, 3_000]
