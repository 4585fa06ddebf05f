"""A whole worker: handlers and schedules of an application on real stores, from start to drain."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.app.working import Worker, composed, problems, start_problems, until, write
from workfleet import (
    App,
    Client,
    ConfigError,
    Job,
    JobFailed,
    JobType,
    LockLost,
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
from workfleet.app.client import Session
from workfleet.app.compile import Compiler
from workfleet.clock import SystemClock
from workfleet.events import Declared, JobSettled, ScheduleFired
from workfleet.model.jobs import JobState
from workfleet.ports.stores import JobQuery
from workfleet.stores.open import open_store

pytestmark = pytest.mark.usefixtures("project")

PING = JobType("ping", int, int, queue="pings")


@queue("pings", concurrency=2)
class Pings:
    @handler(PING)
    async def ping(self, job: Job[int]) -> int:
        return job.data + 1

    @handler()
    async def fan_out(self, job: Job[int]) -> list[NewJob[int]]:
        return [PING(number) for number in range(job.data)]

    @handler()
    async def one_more(self, job: Job[int]) -> NewJob[int]:
        return PING(job.data, id="chosen")

    @handler()
    async def bad_follow_up(self, job: Job[int]) -> NewJob[int]:
        return PING("no number")  # type: ignore[arg-type]

    @handler()
    async def mixed(self, job: Job[int]) -> list[object]:
        return [PING(1), 2]


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_returned_jobs_are_enqueued_in_the_step_that_settles_the_run(project: Path, url: str) -> None:
    store = url if url == "memory://" else f"sqlite:///{project}/jobs.db"
    async with Worker(App("x", jobs=[Pings]), store=store) as worker:
        made = await (await worker.client.enqueue(Pings.fan_out.job(3))).result(timeout="10s")
        chosen = await (await worker.client.enqueue(Pings.one_more.job(9))).result(timeout="10s")
        assert len(set(made)) == 3
        assert chosen == ["chosen"]
        await until(lambda: sum(e.name == "ping" for e in worker.told(JobSettled)) == 4)
        results = [record.result for record in await worker.jobs(name="ping")]
    assert sorted(filter(None, results)) == [b"1", b"10", b"2", b"3"]


async def test_a_run_that_is_repeated_after_a_crash_makes_the_same_jobs() -> None:
    async with Worker(App("x", jobs=[Pings])) as worker:
        ref = await worker.client.enqueue(Pings.fan_out.job(3))
        await ref.result(timeout="10s")
        await until(lambda: sum(e.name == "ping" for e in worker.told(JobSettled)) == 3)
        session = await worker.get(Session)
        finish = Compiler(worker.runtime.container, session.enqueueing, None, None, None).finish  # type: ignore[arg-type]
        returned = finish(await ref.record(), [PING(number) for number in range(3)])
        answers = await worker.store.jobs.enqueue(returned.follow_up)
    assert [answer.created for answer in answers] == [False] * 3


@pytest.mark.parametrize(
    ("name", "said"), [("bad_follow_up", "payload of ping: $: Expected `int`"), ("mixed", "result of mixed")]
)
async def test_returned_jobs_that_cannot_be_made_fail_the_run_for_good(name: str, said: str) -> None:
    async with Worker(App("x", jobs=[Pings])) as worker:
        with pytest.raises(JobFailed, match=said.replace("$", r"\$")):
            await (await worker.client.enqueue(getattr(Pings, name).job(1))).result(timeout="10s")
        assert [e.attempt for e in worker.told(JobSettled) if e.name == name] == [1]
        assert await worker.jobs(name="ping") == []


# Threads


class Threads:
    @handler(timeout="1s")
    def one(self, job: Job[int]) -> None: ...

    @handler(timeout="1s", on_timeout="abandon")
    def fine(self, job: Job[int]) -> None: ...

    @schedule(every="1h", timeout="1s")
    def two(self) -> None: ...

    @handler(on_timeout="abandon")
    async def pointless(self, job: Job[int]) -> None: ...

    @handler()
    def generator(self, job: Job[int]) -> Any:
        yield 1


async def test_every_timeout_that_meets_a_thread_is_told_in_one_error() -> None:
    said = await start_problems(App("x", jobs=[Threads]))
    reason = "it has a timeout but runs in a thread, which cannot be ended."
    assert {name.removeprefix(f"{__name__}."): text.startswith(reason) for name, text in said.items()} == {
        "Threads.one": True, "Threads.two": True, "Threads.pointless": False, "Threads.generator": False
    }  # fmt: skip
    assert "this one can be ended" in said[f"{__name__}.Threads.pointless"]
    assert "it is a generator" in said[f"{__name__}.Threads.generator"]


async def test_an_operators_timeout_that_meets_a_thread_is_told_as_well() -> None:
    app = App("x")

    @app.handler()
    def work(job: Job[int]) -> None: ...

    said = await start_problems(app, jobs={"work": {"timeout": "5s"}})
    assert list(said) == [f"{__name__}.work"]


async def test_an_abandoned_run_fails_its_job_and_its_late_result_is_discarded() -> None:
    app, go_on = App("x"), threading.Event()

    @app.handler(timeout="50ms", on_timeout="abandon", attempts=1)
    def deaf(job: Job[int]) -> str:
        go_on.wait(10)
        return "late"

    async with Worker(app, concurrency=1) as worker:
        ref = await worker.client.enqueue(deaf.job(1))
        with pytest.raises(JobFailed, match=r"did not end within its timeout of 0\.05 s"):
            await ref.result(timeout="10s")
        go_on.set()
        record = await ref.record()
    assert (record.outcome, record.result) == ("timed_out", None)


async def test_a_lost_lock_does_not_let_a_thread_run_twice_at_a_time() -> None:
    inside, most, go_on = [0], [0], threading.Event()
    app = App("x")

    @app.handler(attempts=2, backoff="1ms")
    @locked("ledger", ttl="1s")
    def work(job: Job[int]) -> str:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        if job.attempt == 1:
            go_on.wait(10)
        inside[0] -= 1
        return f"attempt {job.attempt}"

    async with Worker(app) as worker:
        ref = await worker.client.enqueue(work.job(1))
        await until(lambda: inside[0] == 1)
        locks = await worker.get(Locks)
        assert await locks.release("ledger")
        await asyncio.sleep(0.8)  # the renewal has found out: its body is to end, and the thread does not
        assert (await ref.record()).state is JobState.ACTIVE
        go_on.set()
        assert await ref.result(timeout="10s") == "attempt 2"
        record = await ref.record()
    assert most == [1]
    assert record.history[0].failure is not None
    assert record.history[0].failure.code == LockLost.code


def test_a_thread_that_never_ends_does_not_keep_a_process_from_ending(project: Path) -> None:
    write(
        project,
        {
            "hangs": """
import asyncio, threading
from workfleet import App, Job
app = App("hangs", store="memory://")

@app.handler()
def forever(job: Job[None]) -> None:
    print("began", flush=True)
    threading.Event().wait()

@app.on_bootstrap
async def enqueue(client: "Client") -> None:
    await client.enqueue(forever.job(None))

from workfleet import Client
asyncio.run(app.run())
print("ended", flush=True)
"""
        },
    )
    command = [sys.executable, "hangs.py"]
    environ = {"PATH": "/usr/bin:/bin", "WORKER_SHUTDOWN_TIMEOUT": "0s"}
    with subprocess.Popen(command, cwd=project, env=environ, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line == "began\n":
                break
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=20)
    assert said.endswith("ended\n")
    assert running.returncode == 0


# Leases


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_a_job_that_runs_longer_than_its_lease_runs_once(
    project: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process without a supervisor: a thread renews, or the process itself for a store in memory."""
    app = App("x", store=url if url == "memory://" else f"sqlite:///{project}/jobs.db")
    runs: list[int] = []

    @app.handler()
    async def long(job: Job[None]) -> str:
        runs.append(job.attempt)
        await asyncio.sleep(2.2)
        return "done"

    @app.on_bootstrap
    async def enqueue(client: Client) -> None:
        await client.enqueue(long.job(None))

    for name, value in (("LEASE", "1s"), ("POLL", "200ms"), ("HEARTBEAT_ENABLED", "false")):
        monkeypatch.setenv(f"WORKER_{name}", value)
    await asyncio.wait_for(app.run(until_idle=True), 20)
    assert runs == [1]
    if sys.platform == "linux":
        there = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)]
        assert [name for name in there if "workfleet-board" in name] == []


async def test_until_idle_waits_for_retries_and_what_they_make_but_not_for_later(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{project}/jobs.db"
    app = App("x", store=url, jobs=[Pings])
    monkeypatch.setenv("WORKER_HEARTBEAT_ENABLED", "false")

    @app.handler(attempts=2, backoff="700ms")
    async def flaky(job: Job[int]) -> NewJob[int]:
        if job.attempt == 1:
            raise OSError("again")
        return PING(job.data)

    @app.schedule(every="365d")
    async def yearly() -> None: ...

    @app.on_bootstrap
    async def enqueue(client: Client) -> None:
        await client.enqueue(flaky.job(1))
        await client.enqueue(PING(2, delay="1h", id="later"))

    await asyncio.wait_for(app.run(until_idle=True), 20)
    store = await open_store(url, app="x", clock=SystemClock(), create=False)
    jobs = {job.name if job.id != "later" else "later": job for job in await store.jobs.find(JobQuery(limit=100))}
    await store.close()
    assert {name: job.state.value for name, job in jobs.items() if not job.housekeeping} == {
        "flaky": "completed", "ping": "completed", "later": "delayed"
    }  # fmt: skip


async def test_more_jobs_at_a_time_than_the_board_holds_are_renewed_too() -> None:
    app = App("x")
    go_on = asyncio.Event()

    @app.handler()
    async def wait(job: Job[int]) -> None:
        await go_on.wait()

    async with Worker(app, lease="1s", concurrency=50, heartbeat_enabled=False) as worker:
        await worker.client.enqueue_many(wait.job(number) for number in range(50))
        await until(lambda: worker.runtime.exchange.active >= 50)
        await asyncio.sleep(1.5)
        leases = [job.lease_until_ms or 0 for job in await worker.jobs(name="wait")]
        now = await worker.store.now_ms()
        go_on.set()
    assert min(leases) > now


# Starting and stopping


class Both:
    @handler()
    async def work(self, job: Job[int]) -> None: ...

    @schedule(every="1h", run_on_start=True)
    async def at_start(self) -> None: ...

    @schedule(every="1h", run_on_start="release")
    async def at_release(self) -> None: ...

    @schedule("off", every="1h", run_on_start=True, enabled=False)
    async def off(self) -> None: ...


async def test_a_schedule_per_release_needs_a_release() -> None:
    worker = Worker(App("x", jobs=[Both]))
    with pytest.raises(ConfigError, match=r"Both\.at_release runs once per release, but this release has no name"):
        await worker.runtime.start()
    assert await start_problems(App("x", jobs=[Both])) != {}


async def test_what_runs_at_start(project: Path) -> None:
    app = App("x", jobs=[Both], version="1.0")
    url = f"sqlite:///{project}/jobs.db"
    for name in ("first", "second"):
        async with Worker(app, name=name, store=url) as worker:
            await until(lambda: sum(e.name == "Both.at_start" for e in worker.told(JobSettled)))
    store = await open_store(url, app="x", clock=SystemClock(), create=False)
    jobs = await store.jobs.find(JobQuery(limit=100))
    await store.close()
    names = sorted(job.name for job in jobs if not job.housekeeping)
    assert names == ["Both.at_release", "Both.at_start", "Both.at_start"]
    startups = [job for job in jobs if job.name == "worker.startup"]
    assert len(startups) == 2  # one of each process


async def test_a_paused_schedule_does_not_run_at_start(project: Path) -> None:
    app = App("x", jobs=[Both], version="1.0")
    url = f"sqlite:///{project}/jobs.db"
    async with Worker(app, store=url) as worker:
        await (await worker.get(Schedules)).pause("Both.at_start")
        await until(lambda: sum(e.name == "Both.at_start" for e in worker.told(JobSettled)))
    async with Worker(app, store=url, name="w2") as worker:
        await until(lambda: [e for e in worker.told(JobSettled) if e.name == "worker.startup"])
        runs = await worker.jobs(name="Both.at_start")
    assert len(runs) == 1


async def test_a_start_that_fails_leaves_nothing_behind(project: Path) -> None:
    app = App("x", jobs=[Both], version="1.0")

    @app.on_bootstrap
    def fails() -> None:
        raise RuntimeError("no bootstrap")

    url = f"sqlite:///{project}/jobs.db"
    tasks = len(asyncio.all_tasks())
    with pytest.raises(RuntimeError, match="no bootstrap"):
        await Worker(app, store=url).runtime.start()
    assert len(asyncio.all_tasks()) == tasks
    store = await open_store(url, app="x", clock=SystemClock(), create=False)
    assert await store.fleet.workers() == []
    await store.close()


async def test_a_stop_reports_what_was_cut_and_forgets_the_worker(project: Path) -> None:
    app = App("x")
    began = asyncio.Event()

    @app.handler()
    async def hangs(job: Job[int]) -> None:
        began.set()
        await asyncio.Event().wait()

    url = f"sqlite:///{project}/jobs.db"
    async with Worker(app, store=url, stop_ms=100) as worker:
        ref = await worker.client.enqueue(hangs.job(1))
        await began.wait()
        started = time.monotonic()
    assert time.monotonic() - started < 3
    assert worker.stopped is not None
    assert (worker.stopped.given_back, worker.stopped.refused) == (1, ())
    store = await open_store(url, app="x", clock=SystemClock(), create=False)
    (record,) = await store.jobs.get([ref.id])
    assert record is not None
    assert (record.state, record.attempts_made, record.crashes) == (JobState.WAITING, 0, 0)
    assert await store.fleet.workers() == []
    await store.close()


async def test_only_the_wanted_queues_are_listened_to() -> None:
    app = App("x", jobs=[Pings, Both], version="1")
    async with Worker(app, queues=("pings",)) as worker:
        other = await worker.client.enqueue(Both.work.job(1))
        assert await (await worker.client.enqueue(PING(1))).result(timeout="10s") == 2
        assert (await other.record()).state is JobState.WAITING
    with pytest.raises(ConfigError, match=r"no handler is on nowhere\. Queues with handlers: pings, worker-default"):
        await Worker(app, queues=("pings", "nowhere")).runtime.start()


async def test_the_start_log_lists_every_job() -> None:
    app = App("x", jobs=[Pings, Both], version="1")
    async with Worker(app) as worker:
        lines = [event.line for event in worker.told(Declared)]
    assert f"handler ping on queue pings ({__name__}.Pings.ping)" in lines
    (at_start,) = [line for line in lines if line.startswith("schedule Both.at_start")]
    assert at_start.startswith("schedule Both.at_start, every 1h, at start, once per process, next 2")
    assert "schedule off, every 1h, at start, once per process, disabled" in lines
    async with Worker(app, scheduler={"log_registered_jobs": False}) as worker:
        assert worker.told(Declared) == []


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
