"""Applications written with the names of the source documents, run by a fleet."""

from datetime import UTC, datetime
from typing import Any

import pytest

from workfleet import (
    App,
    IDistributedLockService,
    Job,
    JobFailed,
    LockModule,
    NewJob,
    NotFound,
    ProcessManager,
    QueueingDisabled,
    QueueJobHandler,
    QueueWorker,
    QueueWorkerHost,
    SchedulerModule,
    SchedulerQueueService,
    SchedulerService,
    UsageError,
    scheduled_job,
    timeout_once,
    with_distributed_lock,
)
from workfleet.ports.clock import Clock
from workfleet.testing import Fleet


class Mail(QueueWorkerHost):
    """What both documents call a processor."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    @QueueJobHandler("worker.startup")
    async def startup(self, job: Job[dict[str, int]]) -> None:
        self.got.append((job.name, job.data))


@QueueWorker("emails")
class Emails(Mail):
    @QueueJobHandler("report")
    async def report(self, job: Job[list[int]]) -> int:
        self.got.append((job.name, job.data))
        return sum(job.data)


class Jobs:
    @scheduled_job(name="reports", interval="10m", queue_name="emails", queue_job_name="report")
    async def reports(self) -> list[int]:
        return [1, 2, 3]

    @scheduled_job(name="report", interval="10m", queue_name="emails", queue_job_options={"priority": 7})
    async def named_like_its_job(self) -> list[int]:
        return [4]


async def test_a_return_value_becomes_the_payload_of_the_queue_s_handler() -> None:
    async with Fleet(App("shop", jobs=[Emails, Jobs])) as fleet:
        await fleet.travel("10m")
        emails = await fleet.get(Emails)
        assert sorted(emails.got) == [("report", [1, 2, 3]), ("report", [4])]
        done = {job.payload: job for job in await fleet.jobs.list(queue="emails")}
        assert [done[payload].priority for payload in (b"[1,2,3]", b"[4]")] == [0, 7]
        assert done[b"[1,2,3]"].result == b"6"
        assert fleet.enqueued == [
            Emails.report.job([4]).with_options(priority=7),
            Emails.report.job([1, 2, 3]),
        ]
        assert [run.outcome for run in await fleet.runs("reports")] == ["completed"]


async def test_a_target_without_a_queue_is_the_default_queue() -> None:
    class Sender:
        @scheduled_job(name="hello", queue_job_options={})
        async def hello(self) -> str:
            return "world"

    @QueueWorker("main")
    class Receiver:
        def __init__(self) -> None:
            self.got: list[str] = []

        @QueueJobHandler("hello")
        async def hello(self, job: Job[str]) -> None:
            self.got.append(job.data)

    app = App("shop", modules=[SchedulerModule(default_queue="main")], jobs=[Sender, Receiver])
    async with Fleet(app) as fleet:
        service = await fleet.get(SchedulerService)
        assert (await service.trigger_now("hello")).accepted
        await fleet.run_until_idle()
        assert (await fleet.get(Receiver)).got == ["world"]


async def test_inherited_handlers_and_their_overrides_are_found() -> None:
    @QueueWorker("parcels")
    class Parcels(Mail):
        async def startup(self, job: Job[dict[str, int]]) -> None:  # type: ignore[override]
            self.got.append("overridden")

    async with Fleet(App("shop", jobs=[Emails, Parcels])) as fleet:
        await fleet.enqueue(Emails.startup.job({"timestamp": 1}))
        await fleet.enqueue(Parcels.startup.job({"timestamp": 2}))  # type: ignore[attr-defined]
        await fleet.run_until_idle()
        assert (await fleet.get(Emails)).got == [("worker.startup", {"timestamp": 1})]
        assert (await fleet.get(Parcels)).got == ["overridden"]
        assert [job.type.queue for job in fleet.enqueued] == ["emails", "parcels"]


async def test_an_override_keeps_the_lock_of_what_it_overrides() -> None:
    class Base:
        def __init__(self) -> None:
            self.ran = 0

        @scheduled_job(name="clean", interval="1m")
        @with_distributed_lock("clean", "1h")
        async def clean(self) -> None:
            raise AssertionError("overridden")

    class Cleanup(Base):
        async def clean(self) -> None:
            self.ran += 1

    async with Fleet(App("shop", jobs=[Cleanup])) as fleet:
        async with fleet.locks.lock("clean"):
            await fleet.travel("1m")
        assert (await fleet.get(Cleanup)).ran == 0
        await fleet.travel("1m")
        assert (await fleet.get(Cleanup)).ran == 1
        assert [run.outcome for run in await fleet.runs("clean")] == ["skipped", "completed"]


async def test_an_unknown_job_name_s_error_lists_the_handlers() -> None:
    async with Fleet(App("shop", jobs=[Emails])) as fleet:
        ref = await (await fleet.get(SchedulerQueueService)).enqueue("emails", "farewell", {"user": 1})
        await fleet.run_until_idle()
        with pytest.raises(JobFailed, match=r"'farewell' on queue 'emails'\. Known handlers: report, worker\.startup"):
            await fleet.ref(ref.id).result()


async def test_a_timeout_runs_once_in_a_process() -> None:
    app, at = App("shop"), list[int]()

    @timeout_once("5s", name="once", queue_job_name="hello")
    async def once() -> int:
        return 1

    @app.handler("hello", queue="worker-default")
    async def hello(job: Job[int], clock: Clock) -> None:
        at.append(clock.now_ms())

    app.jobs.append(once)
    async with Fleet(app) as fleet:
        started = fleet.clock.now_ms()
        await fleet.travel("4s")
        assert at == []
        await fleet.travel("1d")
        assert at == [started + 5_000]


async def test_what_the_service_lists() -> None:
    app = App("shop", jobs=[Emails, Jobs])

    @app.schedule("off", cron="0 3 * * *", enabled=False, run_on_start=True, timezone="Europe/Berlin", description="d")
    async def off() -> None: ...

    @app.schedule("by hand")
    async def by_hand(clock: Clock) -> None:
        await clock.sleep(60)

    async with Fleet(app, now="2027-01-01T00:05Z") as fleet:
        service = await fleet.get(SchedulerService)
        await service.trigger_now("by hand")
        await fleet.travel("1s")
        by_name = {job.id: job for job in await service.list_jobs()}
        assert list(by_name) == ["by hand", "off", "report", "reports"]
        job = by_name["reports"]
        assert (job.provider, job.method, job.description, job.enabled) == ("Jobs", "reports", "", True)
        assert (job.type, job.cron, job.interval, job.target) == ("interval", None, "10m", "queue")
        assert (job.queue, job.queue_job, job.running, job.run_on_start) == ("emails", "report", False, None)
        assert (job.next_due, job.last_slot) == (datetime(2027, 1, 1, 0, 10, tzinfo=UTC), None)
        job = by_name["off"]
        assert (job.provider, job.method, job.description, job.enabled) == (None, "off", "d", False)
        assert (job.type, job.cron, job.timezone, job.target) == ("cron", "0 3 * * *", "Europe/Berlin", "inline")
        assert (job.next_due, job.run_on_start) == (None, "process")
        job = by_name["by hand"]
        assert (job.type, job.running, job.next_due) == ("manual", True, None)
        await fleet.travel("10m")
        job = {job.id: job for job in await service.list_jobs()}["reports"]
        assert (job.fired, job.last_outcome, job.last_slot) == (1, "fired", datetime(2027, 1, 1, 0, 10, tzinfo=UTC))


async def test_a_trigger_says_why_it_does_nothing() -> None:
    app, ran = App("shop"), list[str]()

    @app.schedule("slow", jitter="1h")
    async def slow(clock: Clock) -> None:
        await clock.sleep(60)
        ran.append("slow")

    @app.schedule("off", every="1m", enabled=False)
    async def off() -> None: ...

    @app.schedule("free", overlap="allow")
    async def free(clock: Clock) -> None:
        await clock.sleep(60)
        ran.append("free")

    async with Fleet(app) as fleet:
        service = await fleet.get(SchedulerService)
        with pytest.raises(NotFound, match=r"there is no schedule 'sloow'\. Known schedules: free, off, slow"):
            await service.trigger_now("sloow")
        disabled = await service.trigger_now("off")
        assert (disabled.accepted, disabled.reason) == (False, "the schedule 'off' is disabled")
        first, again = await service.trigger_now("slow"), await service.trigger_now("slow")
        assert (first.accepted, first.reason) == (True, None)
        assert again.ref is None
        assert first.ref is not None
        assert again.reason == f"the schedule 'slow' is running already (job {first.ref.id})"
        assert [(await service.trigger_now("free")).accepted for _ in range(2)] == [True, True]
        await fleet.run_until_idle()
        assert sorted(ran) == ["free", "free", "slow"]
        assert (await service.trigger_now("slow")).accepted
    async with Fleet(app, settings={"scheduler_enabled": False}) as fleet:
        refused = await (await fleet.get(SchedulerService)).trigger_now("slow")
        assert refused.reason is not None
        assert "WORKER_SCHEDULER_ENABLED" in refused.reason


async def test_the_services_enqueue_by_names() -> None:
    async with Fleet(App("shop", jobs=[Emails])) as fleet:
        service, queues = await fleet.get(SchedulerService), await fleet.get(SchedulerQueueService)
        first = await service.enqueue(" emails ", " report ", [1], {"priority": 5})
        second = await queues.enqueue("emails", "report", [2], {"delay": "1m"})
        await fleet.travel("1m")
        assert [await fleet.ref(ref.id).result() for ref in (first, second)] == [1, 2]
        assert (await first.record()).priority == 5
        for names in (("", "report"), ("emails", " ")):
            with pytest.raises(UsageError, match="the names of a queue and of a job"):
                await queues.enqueue(*names)
    async with Fleet(App("shop", jobs=[Emails]), settings={"queue_enabled": False}) as fleet:
        with pytest.raises(QueueingDisabled, match="job 'report' cannot be put on queue 'emails'"):
            await (await fleet.get(SchedulerService)).enqueue("emails", "report", [1])


async def test_without_queueing_the_handler_runs_in_this_process_with_the_payload() -> None:
    async with Fleet(App("shop", jobs=[Emails, Jobs]), settings={"queue_enabled": False}) as fleet:
        await fleet.travel("10m")
        assert sorted((await fleet.get(Emails)).got) == [
            ("report", [1, 2, 3]),
            ("report", [4]),
        ]
        assert list(await fleet.queues.list()) == ["shop-schedules"]


async def test_the_old_services_are_injected() -> None:
    app, got = App("shop", modules=[LockModule()]), list[object]()

    @app.schedule("look")
    async def look(
        service: SchedulerService, queues: SchedulerQueueService, locks: IDistributedLockService, pools: ProcessManager
    ) -> list[NewJob[Any]]:
        got.extend([len(await service.list_jobs()), await locks.is_locked("x")])
        return []

    async with Fleet(app) as fleet:
        await fleet.schedules.trigger("look")
        await fleet.run_until_idle()
    assert got == [1, "no"]
