"""A whole worker, from start to drain: what its runs return, their leases, and how it starts and stops."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from tests.app.running_apps import PING, Pings
from tests.app.working import Worker, start_problems, until
from workfleet import (
    App,
    Client,
    ConfigError,
    Job,
    JobFailed,
    NewJob,
    Queue,
    Schedules,
    handler,
    schedule,
)
from workfleet.app.client import Session
from workfleet.app.compile import Compiler
from workfleet.clock import SystemClock
from workfleet.events import Declared, JobSettled, StoreRestored
from workfleet.model.jobs import JobState
from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import JobQuery
from workfleet.stores.open import open_store

pytestmark = pytest.mark.usefixtures("project")


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
        first = {job.id: job.lease_until_ms or 0 for job in await worker.jobs(name="wait")}
        async with asyncio.timeout(15):  # twice: each of them by who renews it
            while any((job.lease_until_ms or 0) < first[job.id] + 1_000 for job in await worker.jobs(name="wait")):
                await asyncio.sleep(0.05)
        go_on.set()


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


async def test_a_start_that_is_refused_leaves_the_schedules_of_the_fleet_as_they_are(project: Path) -> None:
    before, url = App("x", version="1.0"), f"sqlite:///{project}/jobs.db"

    @before.schedule("kept", every="1h")
    async def kept() -> None: ...

    async with Worker(before, store=url) as worker:
        with pytest.raises(ConfigError, match="this release has no name"):
            await Worker(App("x", jobs=[Both]), store=url, name="w2").runtime.start()
        stored = {record.name: record.orphaned for record in await worker.store.schedules.all()}
    assert stored == {"kept": False}


async def test_a_store_that_has_lost_everything_gets_the_schedules_and_limits_again(project: Path) -> None:
    app = App("x", queues=[Queue("q", fleet_concurrency=3)])

    @app.schedule("kept", every="1h")
    async def kept() -> None: ...

    @app.handler(queue="q")
    async def work(job: Job[int]) -> None: ...

    async with Worker(app, poll="100ms") as worker:
        schedules = worker.store.schedules
        await schedules.merge([])  # as where the server was emptied
        await schedules.remove("kept")
        await worker.store.queues.set_limits({"q": QueueLimits()})
        await worker.store.fleet.forget("w1")
        await until(lambda: worker.told(StoreRestored))
        (record,) = await schedules.all()
        limits = (await worker.store.queues.all())["q"].limits
    assert (record.name, record.orphaned, record.from_code, record.next_due_ms is not None) == (
        "kept",
        False,
        True,
        True,
    )
    assert limits.concurrency == 3
    assert [event.schedules for event in worker.told(StoreRestored)] == [1]


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
    assert f"handler ping on queue pings ({Pings.__module__}.Pings.ping)" in lines
    (at_start,) = [line for line in lines if line.startswith("schedule Both.at_start")]
    assert at_start.startswith("schedule Both.at_start, every 1h, at start, once per process, next 2")
    assert "schedule off, every 1h, at start, once per process, disabled" in lines
    async with Worker(app, scheduler={"log_registered_jobs": False}) as worker:
        assert worker.told(Declared) == []
