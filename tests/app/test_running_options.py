"""A whole worker under its operator's options, with guards on its handlers, and with queueing or without."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.app.running_apps import PING, Pings
from tests.app.working import Worker, composed, problems, start_problems, until, write
from workfleet import (
    App,
    Job,
    JobFailed,
    JobType,
    Locks,
    NewJob,
    QueueingDisabled,
    Schedules,
    UsageError,
    handler,
    idempotent,
    locked,
    queue,
    schedule,
    scheduled_job,
    setting,
)
from workfleet.events import JobSettled, ScheduleFired
from workfleet.model.jobs import JobState

pytestmark = pytest.mark.usefixtures("project")


# Options by name, and from the settings


class Tuned:
    @handler("mail.send", attempts=2)
    async def send(self, job: Job[int]) -> tuple[int, bool]:
        return job.max_attempts, job.deadline is not None

    @handler()
    async def off(self, job: Job[int]) -> None: ...

    @schedule("nightly", cron="0 3 * * *")
    async def nightly(self) -> None: ...

    @schedule("polling", every=setting("heartbeat_every"), timezone="UTC", enabled=setting("scheduler_enabled"))
    async def polling(self) -> None: ...


async def test_an_operator_overrides_a_job_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MAIL_SEND__ATTEMPTS": "7", "MAIL_SEND__TIMEOUT": "5s", "NIGHTLY__EVERY": "20m", "NIGHTLY__JITTER": "1m",
        "OFF__ENABLED": "false",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"WORKER_JOBS__{name}", value)
    monkeypatch.setenv("WORKER_HEARTBEAT_EVERY", "45s")
    async with Worker(App("x", jobs=[Tuned])) as worker:
        ref = await worker.client.enqueue(Tuned.send.job(1))
        assert await ref.result(timeout="10s") == (7, True)
        own = await worker.client.enqueue(Tuned.send.job(1, attempts=4, timeout=None))
        assert await own.result(timeout="10s") == (4, False)  # the enqueue's word counts more
        schedules = await worker.get(Schedules)
        nightly, polling = await schedules.get("nightly"), await schedules.get("polling")
        (stored,) = [record for record in await worker.store.schedules.all() if record.name == "nightly"]
    assert (nightly.type, nightly.interval, nightly.cron) == ("interval", "20m", None)
    assert stored.jitter_ms == 60_000
    assert (polling.interval, polling.enabled) == ("45s", True)


async def test_a_handler_that_an_operator_switched_off_leaves_its_jobs_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKER_JOBS__OFF__ENABLED", "false")
    async with Worker(App("x", jobs=[Tuned])) as worker:
        ref = await worker.client.enqueue(Tuned.off.job(1))
        await until(lambda: [e for e in worker.told(JobSettled) if e.name == "off"])
        record = await ref.record()
    assert (record.state, record.deferrals, record.attempts_made) == (JobState.DELAYED, 0, 0)
    assert record.failure is not None
    assert (
        record.failure.message == "the handler 'off' of queue 'worker-default' is switched off by the settings of jobs"
    )


def test_an_override_of_a_job_that_nobody_declares() -> None:
    said = problems(App("x", jobs=[Tuned]), jobs={"nightlu": {"enabled": False}})
    assert any("nightly" in text for text in said.values())


async def test_a_setting_that_does_not_exist_stops_the_start() -> None:
    app = App("x")

    @app.schedule(every=setting("mail.poll_evry"))
    async def tick() -> None: ...

    assert "setting('mail.poll_evry')" in await start_problems(app)


# Guards on handlers


class Guarded:
    @handler()
    @idempotent("{job.data}", ttl="1h")
    async def once(self, job: Job[int]) -> int:
        RUNS.append(job.data)
        return job.data

    @schedule("alone", every="1h")
    @locked("alone")
    async def alone(self) -> None: ...


RUNS: list[int] = []


async def test_guards_stand_around_handlers_and_schedules() -> None:
    RUNS.clear()
    async with Worker(App("x", jobs=[Guarded])) as worker:
        refs = [await worker.client.enqueue(Guarded.once.job(number)) for number in (1, 1, 2, 1)]
        assert [await ref.result(timeout="10s") for ref in refs] == [1, 1, 2, 1]
        locks, schedules = await worker.get(Locks), await worker.get(Schedules)
        async with locks.lock("alone"):
            triggered = await schedules.trigger("alone")
            assert triggered.ref is not None
            await triggered.ref.result(timeout="10s")
            record = await triggered.ref.record()
    assert sorted(RUNS) == [1, 2]
    assert (record.state, record.outcome) == (JobState.COMPLETED, "skipped")


async def test_functions_of_one_name_do_not_share_what_they_remember(project: Path) -> None:
    program = """
from workfleet import Job, handler, idempotent
class Emails:
    @handler("{0}")
    @idempotent("{{job.data}}")
    async def send(self, job: Job[int]) -> str:
        return "{0}"
"""
    write(project, {name: program.format(name) for name in ("first", "second")})
    found = [import_module(name).Emails for name in ("first", "second")]
    async with Worker(App("x", jobs=found)) as worker:
        refs = [await worker.client.enqueue(each.send.job(1)) for each in found]
        assert [await ref.result(timeout="10s") for ref in refs] == ["first", "second"]


class BadKeys:
    @handler()
    @idempotent("{tenant}")
    async def one(self, job: Job[int]) -> None: ...

    @handler()
    @idempotent("{job.id}")
    async def two(self, job: Job[int]) -> complex: ...

    @handler()
    async def three(self, job: Job[complex]) -> None: ...


async def test_keys_and_types_that_cannot_work_are_told_with_their_place() -> None:
    said = await start_problems(App("x", jobs=[BadKeys]))
    assert {name.removeprefix(f"{__name__}.BadKeys.") for name in said} == {"one", "two", "three"}
    assert "names no parameter; there are job" in said[f"{__name__}.BadKeys.one"]
    assert (
        f"result of {__name__}.BadKeys.two: $: the type builtins.complex is no JSON" in said[f"{__name__}.BadKeys.two"]
    )
    assert "payload of three: $: the type builtins.complex is no JSON" in said[f"{__name__}.BadKeys.three"]


# With and without queueing


class Reports:
    @scheduled_job(name="send", interval="1h", queue_name="emails", queue_job_name="mail", run_on_start=True)
    async def send(self) -> dict[str, int]:
        return {"tenant": 7}

    @schedule("fan", every="1h", run_on_start=True)
    async def fan(self) -> list[NewJob[int]]:
        return [PING(1), PING(2)]

    @schedule("stray", every="1h")
    async def stray(self) -> NewJob[int]:
        return JobType("nobody", int, queue="nowhere")(1)  # type: ignore[return-value]


GOT: list[Any] = []


@queue("emails")
class Mail:
    @handler("mail", attempts=2, backoff="1ms")
    async def mail(self, job: Job[dict[str, int]]) -> str:
        GOT.append((job.queue, job.name, job.data, job.attempt))
        if job.attempt == 1:
            raise OSError("again")
        return "sent"


@pytest.mark.parametrize("queueing", [True, False])
async def test_a_queue_target_runs_its_handler_with_or_without_queueing(*, queueing: bool) -> None:
    GOT.clear()
    app = App("x", jobs=[Reports, Mail, Pings])
    async with Worker(app, queue_enabled=queueing) as worker:
        await until(lambda: sum(e.name.startswith("ping") for e in worker.told(JobSettled)) == 2)
        await until(lambda: len(GOT) == 2)
        await until(lambda: [e for e in worker.told(JobSettled) if e.name.startswith("mail") and e.attempt == 2])
        queues = set(worker.runtime.table.queues)
        (sent,) = [job for job in await worker.jobs() if job.name.startswith("mail")]
    assert [data for _, _, data, _ in GOT] == [{"tenant": 7}] * 2
    assert (sent.result, sent.attempts_made) == (b'"sent"', 2)  # the handler's own attempts
    assert queues == ({"x-schedules", "emails", "pings", "worker-default"} if queueing else {"x-schedules"})
    assert sent.queue == ("emails" if queueing else "x-schedules")


async def test_without_queueing_enqueue_is_refused_and_names_the_job() -> None:
    async with Worker(App("x", jobs=[Reports, Mail, Pings]), queue_enabled=False) as worker:
        with pytest.raises(QueueingDisabled) as refused:
            await worker.client.enqueue(PING(1))
        triggered = await (await worker.get(Schedules)).trigger("stray")
        assert triggered.ref is not None
        with pytest.raises(JobFailed, match="job 'nobody' cannot be put on queue 'nowhere': queueing is off"):
            await triggered.ref.result(timeout="10s")
        waiting = await worker.jobs(queue="pings")
    assert (refused.value.queue, refused.value.job) == ("pings", "ping")
    assert waiting == []


async def test_without_queueing_a_target_without_a_handler_stops_the_start() -> None:
    said = await start_problems(App("x", jobs=[Reports]), queue_enabled=False)
    assert said == {
        f"{__name__}.Reports.send": (
            "schedule 'send': queueing is off, so its job 'mail' on queue 'emails' would run in this process, but no "
            "handler of that name is here"
        )
    }
    assert composed(App("x", jobs=[Reports]), queue_enabled=True) is not None


async def test_without_the_scheduler_nothing_fires_but_queues_go_on() -> None:
    app = App("x", jobs=[Pings])

    @app.schedule("often", every="1s", run_on_start=True)
    async def often() -> None: ...

    async with Worker(app, scheduler_enabled=False) as worker:
        assert await (await worker.client.enqueue(PING(1))).result(timeout="10s") == 2
        await asyncio.sleep(1.2)
        triggered = await (await worker.get(Schedules)).trigger("often")
        assert "x-schedules" not in worker.runtime.table.queues
        assert worker.told(ScheduleFired) == []
        assert await worker.jobs(name="often") == []
        assert await worker.jobs(name="worker.startup.scheduler") == []
    assert (triggered.accepted, triggered.reason) == (
        False, "the scheduler is switched off (WORKER_SCHEDULER_ENABLED=false)"
    )  # fmt: skip


async def test_a_schedule_fires_in_a_running_worker() -> None:
    app = App("x")
    slots: list[Any] = []

    @app.schedule("often", every="1s")
    async def often(job: Job[None]) -> None:
        slots.append((job.schedule, job.slot))

    async with Worker(app) as worker:
        await until(lambda: len(slots) == 2)
        fired = [event.slot_ms for event in worker.told(ScheduleFired) if event.schedule == "often"]
    assert [name for name, _ in slots] == ["often", "often"]
    assert [round(slot.timestamp() * 1000) for _, slot in slots] == fired[:2]
    assert fired[1] - fired[0] == 1_000
    assert fired[0] % 1_000 == 0


async def test_a_reference_needs_a_client_of_its_own() -> None:
    async with Worker(App("x", jobs=[Pings])) as worker:
        with pytest.raises(UsageError, match="needs a client of its own"):
            worker.client.ref("x")
