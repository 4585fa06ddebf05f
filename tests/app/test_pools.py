"""Pools in an application, with real child processes: `Pool[W]` in a constructor, and handlers that run in a child."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.app.working import Worker, start_problems, until, write
from workfleet import App, ConfigError, Job, JobFailed, Pools
from workfleet.events import ChildDied, JobSettled
from workfleet.model.jobs import JobState

# Starting children is what costs here: most tests share one worker, so they share a loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

PROGRAM = {
    "media": """
import os
import signal
import time
from collections.abc import Iterator

from dishka import Provider, Scope, provide
from msgspec import Struct

from workfleet import (
    App, Fail, Job, JobContext, JobType, Locks, Module, NewJob, PayloadRejected, Pool, PoolError, Queue,
    circuit_breaker, handler, idempotent, locked, on_shutdown, process, public, queue, schedule,
)

class Depot:
    def __init__(self, name: str) -> None:
        self.name = name

class Session(Struct):
    number: int

class Provides(Provider):
    made = 0

    @provide(scope=Scope.APP)
    def depot(self) -> Depot:
        return Depot(f"depot of {os.getpid()}")

    @provide(scope=Scope.REQUEST)
    def session(self) -> Session:
        Provides.made += 1
        return Session(Provides.made)

class Photo(Struct):
    width: int

PING = JobType("ping", int, int, queue="media")

@process("images", size=1)
class ImageWorker:
    __slots__ = ("depot", "calls")

    def __init__(self, depot: Depot) -> None:
        self.depot, self.calls = depot, 0

    @public
    def resize(self, width: int) -> tuple[bytes, str, int]:
        self.calls += 1
        return b"x" * width, self.depot.name, self.calls

    @public
    @idempotent("{key}", ttl="1h")
    def once(self, key: str, data: bytes) -> bytes:
        self.calls += 1
        return data + str(self.calls).encode()

    @public
    @circuit_breaker(threshold=2, reset_after="1h")
    def dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @public
    def fails(self) -> None:
        raise Fail("not this one")

@queue("media")
class Media:
    def __init__(self, images: Pool[ImageWorker]) -> None:
        self.images = images

    @handler()
    async def thumbnail(self, job: Job[Photo]) -> tuple[int, str, int]:
        data, depot, calls = await self.images.resize(width=job.data.width)
        return len(data), depot, calls

    @handler()
    async def once(self, job: Job[str]) -> list[str]:
        return [(await self.images.once(job.data, b"n")).decode() for _ in range(3)]

    @handler(attempts=4, backoff="1ms")
    async def deadly(self, job: Job[None]) -> None:
        await self.images.dies()

    @handler(attempts=3)
    async def forwards(self, job: Job[None]) -> None:
        await self.images.fails()

    @handler("holds", pool="cpu")
    async def holds(self, job: Job[None]) -> str:
        try:
            await self.images.resize(1)
        except PoolError as error:
            return str(error)
        return ""

    @handler(PING)
    async def ping(self, job: Job[int]) -> int:
        return job.data

class Cpu:
    def __init__(self, depot: Depot) -> None:
        self.depot = depot

    @handler("checksum", pool="cpu", timeout="30s", queue="media")
    def checksum(self, job: Job[Photo], session: Session) -> dict[str, object]:
        for number in range(50):
            job.log(f"line {number}")
            job.progress(number)
        refused = ""
        try:
            job.progress(object())
        except PayloadRejected as error:
            refused = str(error)
        return {
            "pid": os.getpid(), "depot": self.depot.name, "session": session.number, "width": job.data.width,
            "job": [job.name, job.queue, job.attempt, job.max_attempts, list(job.tags), dict(job.metadata)],
            "deadline": job.deadline is not None, "refused": refused,
        }

    @handler("async-checksum", pool="cpu", queue="media")
    async def async_checksum(self, job: Job[Photo]) -> int:
        await job.progress({"half": True})
        job.log("from a coroutine")
        return os.getpid()

    @handler("inside", pool="images", queue="media")
    def inside(self, job: Job[None]) -> int:
        return os.getpid()

    @handler("by-class", pool=ImageWorker, queue="media")
    def by_class(self, job: Job[None]) -> int:
        return os.getpid()

    @handler("hangs", pool="cpu", timeout="500ms", attempts=1, queue="media")
    def hangs(self, job: Job[str]) -> None:
        with open(job.data, "w") as file:
            file.write(str(os.getpid()))
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass

    @handler("fans-out", pool="cpu", queue="media")
    def fans_out(self, job: Job[None]) -> list[NewJob[int]]:
        return [PING(1), PING(2)]

    @handler("alone", pool="cpu", queue="media")
    @locked("alone")
    def alone(self, job: Job[None]) -> None: ...

    @handler("large", pool="cpu", queue="large")
    def large(self, job: Job[int], context: JobContext) -> list[object]:
        refused = ""
        for size in (job.data, job.data + 1):
            try:
                context.progress("x" * size)
            except PayloadRejected as error:
                refused = str(error)
        return [context.id == job.id, context.group, context.trace, refused.partition(":")[0]]

    @handler("ruled", pool="cpu", queue="media", attempts=5, backoff="1h", retry={LookupError: None, OSError: "1ms"})
    def ruled(self, job: Job[None]) -> None:
        raise ConnectionResetError("again") if job.attempt < 3 else KeyError("no more")

    @schedule("nightly", every="1h", pool="cpu")
    def nightly(self, job: Job[None]) -> list[object]:
        return [os.getpid(), job.schedule]

media = Module("media", providers=[Provides()], jobs=[ImageWorker, Media, Cpu])
app = App("photos", modules=[media], queues=[Queue("large", max_payload="2MB")])
"""
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("media")
    (folder / ".git").mkdir()
    write(folder, PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def media(folder: Path) -> Any:
    return import_module("media")


def worker_of(media: Any, **said: Any) -> Worker:
    return Worker(media.app, locator="media:app", heartbeat_enabled=False, pools={"cpu": {"size": 1}}, **said)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(media: Any) -> AsyncIterator[Worker]:
    before = children()
    async with worker_of(media) as worker:
        yield worker
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if "pool" in task.get_name() or "worker" in task.get_name()] == []
    assert children() == before


async def result(worker: Worker, job: Any, **options: Any) -> Any:
    return await (await worker.client.enqueue(job.with_options(**options))).result(timeout="30s")


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def test_a_pool_in_a_constructor(media: Any, worker: Worker) -> None:
    size, depot, calls = await result(worker, media.Media.thumbnail.job(media.Photo(7)))
    again = await result(worker, media.Media.thumbnail.job(media.Photo(8)))
    assert await result(worker, media.Media.once.job("a")) == ["n3", "n3", "n3"]
    (child,) = (await worker.get(Pools)).stats()["images"].pids
    with pytest.raises(JobFailed, match="not this one"):
        await result(worker, media.Media.forwards.job(None))
    assert [e.attempt for e in worker.told(JobSettled) if e.name == "forwards"] == [1]
    assert child != os.getpid()
    assert (size, depot, calls) == (7, f"depot of {child}", 1)
    assert again == (8, f"depot of {child}", 2)


async def test_a_class_with_a_pool_may_have_handlers_in_children_which_cannot_use_it(
    media: Any, worker: Worker
) -> None:
    said = await result(worker, media.Media.holds.job(None))
    assert said.startswith("Pool[ImageWorker].resize: pools are used from the worker, not from inside a pool's child")


async def test_a_handler_in_a_child_logs_reports_and_has_everything_injected(media: Any, worker: Worker) -> None:
    ref = await worker.client.enqueue(
        media.Cpu.checksum.job(media.Photo(7), tags=["t"], metadata={"k": "v"}, attempts=9)
    )
    said = await ref.result(timeout="30s")
    record = await ref.record()
    pid = await result(worker, media.Cpu.async_checksum.job(media.Photo(1)))
    (other,) = await worker.jobs(name="async-checksum")
    assert said["pid"] != os.getpid()
    assert said["depot"] == f"depot of {said['pid']}"
    assert (said["session"], said["width"], said["deadline"]) == (1, 7, True)
    assert said["job"] == ["checksum", "media", 1, 9, ["t"], {"k": "v"}]
    assert said["refused"].startswith("progress: $")
    assert await worker.client.jobs.logs(ref.id) == [f"line {number}" for number in range(50)]
    assert record.progress == b"49"
    assert (pid, other.progress) == (said["pid"], b'{"half":true}')
    assert await worker.client.jobs.logs(other.id) == ["from a coroutine"]


async def test_a_handler_in_a_child_has_its_context_and_its_queue_s_limits(media: Any, worker: Worker) -> None:
    ref = await worker.client.enqueue(media.Cpu.large.job(1_999_998, group="g"))
    assert await ref.result(timeout="30s") == [True, "g", None, "progress"]
    assert len((await ref.record()).progress or b"") == 2_000_000


async def test_retry_rules_are_about_what_was_raised_in_the_child(media: Any, worker: Worker) -> None:
    with pytest.raises(JobFailed, match="no more"):
        await result(worker, media.Cpu.ruled.job())
    (record,) = await worker.jobs(name="ruled")
    assert [each.failure and each.failure.type for each in record.history] == [
        "ConnectionResetError", "ConnectionResetError", "KeyError"
    ]  # fmt: skip


async def test_a_handler_in_the_pool_of_a_class_shares_its_child(media: Any, worker: Worker) -> None:
    _, depot, _ = await result(worker, media.Media.thumbnail.job(media.Photo(1)))
    inside = await result(worker, media.Cpu.inside.job(None))
    by_class = await result(worker, media.Cpu.by_class.job(None))
    assert depot == f"depot of {inside}" == f"depot of {by_class}"


async def test_returned_jobs_travel_from_a_child(media: Any, worker: Worker) -> None:
    made = await result(worker, media.Cpu.fans_out.job(None))
    await until(lambda: sum(e.name == "ping" for e in worker.told(JobSettled)) == 2)
    pings = await worker.jobs(name="ping")
    assert {job.id for job in pings} == set(made)
    assert sorted(filter(None, (job.result for job in pings))) == [b"1", b"2"]


async def test_guards_of_a_handler_in_a_child_act_here_and_schedules_run_there_too(media: Any, worker: Worker) -> None:
    async with worker.client.locks.lock("alone"):
        ref = await worker.client.enqueue(media.Cpu.alone.job(None))
        await ref.result(timeout="30s")
    triggered = await worker.client.schedules.trigger("nightly")
    assert triggered.ref is not None
    pid, schedule = await triggered.ref.result(timeout="30s")
    record = await ref.record()
    assert (record.outcome, record.state) == ("skipped", JobState.COMPLETED)
    assert pid != os.getpid()
    assert schedule == "nightly"


async def test_a_timeout_kills_the_child_and_the_pool_goes_on(media: Any, worker: Worker, folder: Path) -> None:
    pid = await result(worker, media.Cpu.async_checksum.job(media.Photo(1)))
    with pytest.raises(JobFailed, match=r"did not end within its timeout of 0\.5 s"):
        await result(worker, media.Cpu.hangs.job(str(folder / "pid")))
    assert int((folder / "pid").read_text()) == pid
    assert not psutil.pid_exists(pid)
    (died,) = [event for event in worker.told(ChildDied) if event.pid == pid]
    assert (died.method, died.why) == ("job:hangs", "job:hangs was cancelled")
    assert await result(worker, media.Cpu.async_checksum.job(media.Photo(1))) != pid


async def test_a_killed_child_fails_the_attempt_and_a_breaker_sees_it(media: Any, worker: Worker) -> None:
    ref = await worker.client.enqueue(media.Media.deadly.job(None))
    await until(lambda: [e for e in worker.told(JobSettled) if e.name == "deadly" and e.outcome == "snoozed"])
    record = await ref.record()
    assert (await result(worker, media.Media.thumbnail.job(media.Photo(1))))[0] == 1  # the child was replaced
    codes = [attempt.failure and attempt.failure.code for attempt in record.history]
    assert codes == ["child_died", "child_died", "circuit_open"]
    # What the breaker refuses is put off until it lets one through, in an hour, and counts no attempt.
    assert (record.state, record.attempts_made) == (JobState.DELAYED, 2)
    assert record.history[0].failure is not None
    assert "SIGKILL" in record.history[0].failure.message


async def test_pools_are_steered_from_code(worker: Worker) -> None:
    pools = await worker.get(Pools)
    assert pools.list() == ("cpu", "images")
    await pools.scale("images", 2)
    await until(lambda: pools.stats()["images"].ready == 2)
    (images,) = [pool for pool in worker.runtime.pooling.states() if pool.name == "images"]
    assert (images.state, images.size) == ("running", 2)


async def test_a_stop_ends_what_runs_in_children_and_gives_it_back(media: Any, folder: Path) -> None:
    path = folder / "second"
    async with worker_of(media, stop_ms=200) as worker:
        ref = await worker.client.enqueue(media.Cpu.hangs.job(str(path), timeout="60s"))
        await until(path.exists)
        jobs = worker.store.jobs
    assert worker.stopped is not None
    assert worker.stopped.given_back == 1
    (record,) = await jobs.get([ref.id])
    assert record is not None
    assert (record.state, record.attempts_made) == (JobState.WAITING, 0)


async def test_a_pool_that_is_not_there_stops_the_start(folder: Path) -> None:
    app = App("x")

    @app.handler(pool="gpu")
    def work(job: Job[int]) -> None: ...

    assert list((await start_problems(app)).values()) == [
        "pool='gpu' needs an application that a child can import: use `workfleet run`"
    ]
    worker = Worker(app, locator="media:app")
    with pytest.raises(ConfigError, match=r"pool='gpu': there is no such pool\. Pools: cpu"):
        await worker.runtime.start()


async def test_without_a_locator_no_handler_can_run_in_a_child(media: Any) -> None:
    said = await start_problems(media.app)
    assert all("needs an application that a child can import: use `workfleet run`" in text for text in said.values())
    assert len(said) == 11
