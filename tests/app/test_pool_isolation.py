"""Pools of threads and of the event loop in an application: the worker's own objects are injected, and no child process
runs; strategies with keys, and what a job does when a pool has no room."""

import asyncio
import os
import threading
from typing import Any

import psutil
import pytest
from dishka import Provider, Scope, provide

from tests.app.working import Worker, start_problems, until
from workfleet import App, ConfigError, Job, Module, Pool, Pools, on_shutdown, process, public
from workfleet.events import JobSettled, PoolScaled
from workfleet.model.jobs import JobState


class Depot:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.gate = threading.Event()


class Session:
    """Lives for one job."""


class Nowhere:
    """Nothing provides it."""


class Provides(Provider):
    @provide(scope=Scope.APP)
    def depot(self) -> Depot:
        return Depot()

    @provide(scope=Scope.REQUEST)
    def session(self) -> Session:
        return Session()


@process("inner", size=1, isolation="inline")
class Inner:
    @public
    async def double(self, number: int) -> int:
        return 2 * number


@process("images", size=2, isolation="thread")
class ImageWorker:
    def __init__(self, depot: Depot, inner: Pool[Inner]) -> None:
        self.depot = depot
        depot.log.append(f"made in {threading.current_thread().name}")

    @public
    def resize(self, number: int) -> tuple[int, int, str]:
        return number, os.getpid(), threading.current_thread().name

    @public
    def hold(self) -> str:
        self.depot.log.append("held")
        self.depot.gate.wait(60)
        return "done"

    @on_shutdown
    def close(self) -> None:
        self.depot.log.append("closed")


def application(*jobs: Any) -> App:
    return App("photos", modules=[Module("media", providers=[Provides()], jobs=jobs)])


async def test_a_pool_of_threads_gets_the_worker_s_own_objects() -> None:
    app = application(ImageWorker, Inner)

    @app.handler(queue="media")
    async def thumbnail(job: Job[int], images: Pool[ImageWorker], inner: Pool[Inner]) -> list[Any]:
        return [*await images.resize(await inner.double(job.data))]

    before = set(psutil.Process().children(recursive=True))
    async with Worker(app, heartbeat_enabled=False) as worker:
        result = await (await worker.client.enqueue(thumbnail.job(4))).result(timeout="30s")
        depot = await worker.get(Depot)
        assert result[:2] == [8, os.getpid()]
        assert result[2] in ("images#0", "images#1")
        await (await worker.get(Pools)).get("images").wait_ready()
        assert sorted(depot.log) == ["made in images#0", "made in images#1"]
        assert set(psutil.Process().children(recursive=True)) == before
    assert depot.log.count("closed") == 2


async def test_a_setting_makes_threads_of_processes_but_never_of_the_pool_of_handlers() -> None:
    app = application(ImageWorker, Inner)
    pools = {"isolation": "thread", "images": {"isolation": "inline", "size": 1}}
    async with Worker(app, heartbeat_enabled=False, pools=pools) as worker:
        registry = await worker.get(Pools)
        assert {name: registry.get(name).options.isolation for name in registry.list()} == {
            "cpu": "process",
            "images": "inline",
            "inner": "inline",
        }
        images = await registry.pool(ImageWorker)
        assert (await images.resize(1))[1] == os.getpid()


async def test_a_handler_cannot_name_a_pool_that_has_no_processes() -> None:
    app = application(ImageWorker, Inner)

    @app.handler(queue="media", pool="images")
    def work(job: Job[int]) -> None: ...

    @app.handler(queue="media", pool=Inner)
    def other(job: Job[int]) -> None: ...

    worker = Worker(app, locator="media:app", heartbeat_enabled=False)
    with pytest.raises(ConfigError) as error:
        await worker.runtime.start()
    said = [problem.message for problem in error.value.problems]
    assert said[0].startswith("pool='images' has isolation='thread', and handlers run in pools of processes: without")
    assert said[1].startswith("pool='inner' has isolation='inline', and handlers run in pools of processes: without")


async def test_what_a_thread_s_object_cannot_have_stops_the_start() -> None:
    said = await start_problems(application(Lacking))
    advice = "nothing provides Nowhere: add a provider to a module, or fix the type hint"
    assert said == {f"{__name__}.Lacking.__init__(nowhere)": advice}
    said = await start_problems(application(Leaking))
    assert list(said) == [f"{__name__}.Leaking.__init__(session)"]
    assert "it lives for one job, the object as long as its pool" in said[f"{__name__}.Leaking.__init__(session)"]


@process("lacking", isolation="thread")
class Lacking:
    def __init__(self, nowhere: Nowhere) -> None: ...

    @public
    def work(self) -> None: ...


@process("leaking", isolation="thread")
class Leaking:
    def __init__(self, session: Session) -> None: ...

    @public
    def work(self) -> None: ...


@process("tenants", size=2, strategy="consistent_hash", hash_key="{tenant}")
class Tenants:
    @public
    def work(self, customer: str) -> None: ...


async def test_a_key_that_a_method_cannot_give_stops_the_start() -> None:
    said = await start_problems(application(Tenants))
    assert said == {
        f"{__name__}.Tenants.work": "hash_key of pool 'tenants': {tenant} in the key '{tenant}' names no parameter; "
        "there are customer"
    }


async def test_jobs_wait_for_a_pool_that_has_no_room_and_count_no_attempt() -> None:
    app = application(ImageWorker, Inner)

    @app.handler(queue="media", attempts=1)
    async def wait(job: Job[None], images: Pool[ImageWorker]) -> str:
        return await images.hold()

    pools = {"images": {"size": 1, "max_queue": 1}}
    async with Worker(app, heartbeat_enabled=False, pools=pools) as worker:
        depot = await worker.get(Depot)
        refs = [await worker.client.enqueue(wait.job(None)) for _ in range(4)]
        await until(lambda: len([e for e in worker.told(JobSettled) if e.outcome == "snoozed"]) >= 2)
        await until(lambda: depot.log.count("held") == 1)
        depot.gate.set()
        assert [await ref.result(timeout="30s") for ref in refs] == ["done"] * 4
        records = [await ref.record() for ref in refs]
        assert [(record.state, record.attempts_made) for record in records] == [(JobState.COMPLETED, 1)] * 4
        codes = [attempt.failure.code for record in records for attempt in record.history if attempt.failure]
        assert len(codes) >= 2
        assert set(codes) == {"pool_busy"}


async def test_a_pool_of_threads_scales_itself() -> None:
    app = application(ImageWorker, Inner)
    async with Worker(
        app, heartbeat_enabled=False, pools={"images": {"min_size": 1, "max_size": 2, "size": 1}}
    ) as worker:
        images, depot = await (await worker.get(Pools)).pool(ImageWorker), await worker.get(Depot)
        calls = [asyncio.ensure_future(images.hold()) for _ in range(2)]
        await until(lambda: depot.log.count("held") == 2)
        (scaled,) = worker.told(PoolScaled)
        assert (scaled.pool, scaled.old, scaled.new) == ("images", 1, 2)
        depot.gate.set()
        assert await asyncio.gather(*calls) == ["done", "done"]
