"""Pools of threads and of tasks on the loop: what a pool of processes does, as far as it goes without processes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psutil
import pytest

from tests.pools.isolated import Helper, Made, Shared
from tests.pools.support import wait_until
from tests.pools.workers import Basic, NotFunny
from workfleet.clock import SystemClock
from workfleet.errors import CallTimeout, PayloadRejected, PoolBusy, PoolError, PoolFailed, RemoteError
from workfleet.events import ChildDied, ChildReplaced, Event
from workfleet.pools.isolation import spawner
from workfleet.pools.marks import Isolation
from workfleet.pools.options import ChildSpec, PoolOptions, RestartPolicy
from workfleet.pools.pool import ProcessPool
from workfleet.pools.process import spawn
from workfleet.pools.registry import Pools, PoolSetup

KINDS: tuple[Isolation, ...] = ("thread", "inline")
both = pytest.mark.parametrize("kind", KINDS)


@both
async def test_everything_runs_in_this_process_and_each_place_has_its_object(kind: Isolation) -> None:
    async with Made(kind, size=2) as made:
        await made.pool.wait_ready()
        assert [helper.shared for helper in made.shared.made] == [made.shared] * 2
        pid, built, ran = await made.pool.call("where")
        assert pid == os.getpid()
        assert built == ran
        assert (ran == threading.get_ident()) is (kind == "inline")
        assert len({helper.thread for helper in made.shared.made}) == (2 if kind == "thread" else 1)
        thread, loop = await made.pool.call("awhere")
        assert (thread == threading.get_ident()) is (kind == "inline")
        assert (loop == id(asyncio.get_running_loop())) is (kind == "inline")
        assert made.shared.log == ["start", "start"]
        assert (made.pool.stats().state, made.pool.stats().pids) == ("running", (os.getpid(),) * 2)
    assert made.shared.log == ["start", "start", "stop", "stop"]


@both
async def test_arguments_and_results_are_copies_as_with_a_process(kind: Isolation) -> None:
    async with Made(kind) as made:
        mine: list[object] = [1, bytearray(b"x" * 1_000_000)]
        result = await made.pool.call("append", (mine,))
        assert (len(mine), len(result)) == (2, 3)
        assert (result[1] == mine[1], result[1] is mine[1]) == (True, False)
        with pytest.raises(PayloadRejected, match=r"result of helper\.unsendable"):
            await made.pool.call("unsendable")
        with pytest.raises(PayloadRejected, match=r"arguments of helper\.append"):
            await made.pool.call("append", (threading.Lock(),))


@both
async def test_the_same_worker_as_in_a_process(kind: Isolation) -> None:
    """Without a recipe, by the factory."""
    options = PoolOptions(name="basic", size=1, isolation=kind)
    events: list[Event] = []
    pool = ProcessPool(
        ChildSpec.of(Basic),
        options,
        clock=SystemClock(),
        publish=events.append,
        spawn=spawner(kind, None, spawn),
    )
    assert await pool.call("add", (1,), {"b": 2}) == 3
    assert await pool.call("aadd", (1, 2)) == 3
    with pytest.raises(NotFunny, match="ha"):
        await pool.call("raise_funny")
    with pytest.raises(AttributeError, match="Basic has no method 'nothing'"):
        await pool.call("nothing")

    class Ear:
        def __init__(self) -> None:
            self.heard: list[object] = []

        def log(self, entry: Any) -> None:
            self.heard.append(entry)

        def progress(self, value: Any) -> None:
            self.heard.append(value)

    ear = Ear()
    assert await pool.call("say", (2,), context={"job": "7"}, listener=ear) == {"job": "7"}
    assert ear.heard == [{"line": 0}, {"line": 1}, 2]
    assert await pool.stop(5_000) == 0


@both
async def test_a_context_of_a_factory_is_held_and_left(kind: Isolation) -> None:
    @asynccontextmanager
    async def build(shared: Shared) -> AsyncIterator[Helper]:
        shared.log.append("entered")
        yield Helper(shared)
        shared.log.append("left")

    async with Made(kind, build) as made:
        await made.pool.call("where")
    assert made.shared.log == ["entered", "start", "stop", "left"]


@both
async def test_exceptions_that_would_end_a_process_end_the_call_only(kind: Isolation) -> None:
    async with Made(kind) as made:
        with pytest.raises(RemoteError, match="SystemExit: 3"):
            await made.pool.call("exit")
        assert (await made.pool.call("where"))[0] == os.getpid()
        assert len(made.shared.made) == 1


@both
async def test_streams_have_backpressure_and_can_be_left(kind: Isolation) -> None:
    async with Made(kind) as made:
        assert [item async for item in made.pool.stream("numbers", (100,))] == list(range(100))
        assert [item async for item in made.pool.stream("anumbers", (100,))] == list(range(100))
        made.shared.log.clear()
        items = made.pool.stream("numbers", (1_000,))
        assert await anext(items) == 0
        await wait_until(lambda: len(made.shared.log) >= 8)
        await items.aclose()  # type: ignore[attr-defined]
        await wait_until(lambda: "closed" in made.shared.log)
        assert len(made.shared.log) <= 10
        assert (await made.pool.call("where"))[0] == os.getpid()


@both
async def test_queue_limit_scaling_recycling_and_drain(kind: Isolation) -> None:
    async with Made(kind, queue_limit=1) as made:
        running = [asyncio.create_task(made.pool.call("ahold"))]
        await wait_until(lambda: made.shared.log.count("held") == 1)
        running.append(asyncio.create_task(made.pool.call("ahold")))
        await asyncio.sleep(0)
        with pytest.raises(PoolBusy):
            await made.pool.call("where")
        made.pool.scale(2)
        await wait_until(lambda: made.shared.log.count("held") == 2)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        assert made.shared.log.count("cancelled") == 2
        assert made.pool.stats().ready == 2  # what hears its cancellation is not replaced
        made.pool.scale(1)
        await wait_until(lambda: len(made.pool.stats().pids) == 1)
        made.pool.recycle()
        await wait_until(lambda: made.told(ChildReplaced) == 1)
        assert made.shared.log.count("start") == 3
        assert await made.pool.drain(5_000) == 0
        with pytest.raises(PoolError, match="draining"):
            await made.pool.call("where")


@both
async def test_async_code_that_takes_too_long_is_cancelled_and_its_place_filled_anew(kind: Isolation) -> None:
    async with Made(kind) as made:
        with pytest.raises(CallTimeout, match="ahold did not end within"):
            await made.pool.call("ahold", timeout_ms=50)
        assert (await made.pool.call("where"))[0] == os.getpid()
        await wait_until(lambda: made.shared.log.count("cancelled") == 1)
        assert len(made.shared.made) == 2
        await wait_until(lambda: made.shared.log.count("stop") == 1)  # what the first one held is released


async def test_a_thread_that_takes_too_long_is_left_to_itself_and_its_late_result_discarded() -> None:
    async with Made("thread") as made:
        call = asyncio.create_task(made.pool.call("hold", timeout_ms=50))
        with pytest.raises(CallTimeout, match=r"helper\.hold did not end within 0\.05 s: its thread is left to itself"):
            await call
        assert made.shared.log == ["start", "held"]
        _, thread, _ = await made.pool.call("where")
        assert thread != made.shared.made[0].thread
        (died,) = [event for event in made.events if isinstance(event, ChildDied)]
        assert (died.method, died.how) == ("hold", "left to itself, because nothing but a process can be killed")
        stats = made.pool.stats()
        assert (stats.state, stats.ready, stats.restarts) == ("running", 1, 0)
        made.shared.gate.set()
        await wait_until(lambda: made.shared.log.count("stop") == 1)
        assert made.shared.log == ["start", "held", "start", "let go", "stop"]
        assert (await made.pool.call("where"))[1] == thread


async def test_a_call_to_a_thread_that_is_cancelled_returns_though_its_code_does_not() -> None:
    async with Made("thread") as made:
        call = asyncio.create_task(made.pool.call("hold"))
        await wait_until(lambda: "held" in made.shared.log)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 10)
        assert "let go" not in made.shared.log
        assert (await made.pool.call("where"))[0] == os.getpid()


async def test_no_timeout_can_end_sync_code_on_the_loop_so_its_result_counts() -> None:
    async with Made("inline") as made:
        assert await made.pool.call("block", (0.3,), timeout_ms=50) == "done"
        assert len(made.shared.made) == 1
        assert made.told(ChildDied) == 0


async def test_threads_work_beside_each_other_and_beside_the_loop() -> None:
    async with Made("thread", size=2) as made:
        calls = [asyncio.create_task(made.pool.call("hold")) for _ in range(2)]
        await wait_until(lambda: made.shared.log.count("held") == 2)
        made.shared.gate.set()
        assert await asyncio.gather(*calls) == ["late", "late"]


@both
async def test_an_ill_object_is_replaced(kind: Isolation) -> None:
    async with Made(kind, health_interval_ms=20, restart=RestartPolicy(delay_ms=0)) as made:
        await made.pool.call("where")
        made.shared.ill = True
        await wait_until(lambda: len(made.shared.made) >= 2)
        made.shared.ill = False
        assert (await made.pool.call("where"))[0] == os.getpid()


@both
async def test_an_object_that_cannot_be_made_fails_the_pool_with_its_reason(kind: Isolation) -> None:
    def build(shared: Shared) -> object:
        shared.log.append("tried")
        raise NotFunny("no database")

    async with Made(kind, build, restart=RestartPolicy(max_restarts=1, delay_ms=0)) as made:
        with pytest.raises(PoolFailed, match=r"NotFunny.*no database"):
            await made.pool.call("where")
        assert made.shared.log == ["tried", "tried"]


@both
async def test_arguments_that_cannot_be_got_fail_the_pool_in_the_same_way(kind: Isolation) -> None:
    restart = RestartPolicy(max_restarts=1, delay_ms=0)
    async with Made(kind, unmet=NotFunny("no broker"), restart=restart) as made:
        with pytest.raises(PoolFailed, match=r"NotFunny.*no broker"):
            await made.pool.call("where")
        assert made.shared.log == ["asked", "asked"]


@both
async def test_threads_and_descriptors_stay_flat(kind: Isolation) -> None:
    def open_files() -> int:
        return psutil.Process().num_fds()

    async with Made(kind) as made:
        await made.pool.call("where")
        before = open_files()
        for _ in range(30):
            with pytest.raises(CallTimeout):
                await made.pool.call("ahold", timeout_ms=5)
        await wait_until(lambda: made.pool.stats().ready == 1)
        await wait_until(lambda: open_files() <= before + 2)
        await wait_until(lambda: made.shared.log.count("stop") == 30)
    assert made.shared.log.count("start") == 31


async def test_got_by_class_with_the_options_of_any_pool() -> None:
    shared, events = Shared(), list[Event]()

    async def recipe() -> Callable[[], object]:
        return partial(Helper, shared)

    def configure(worker: type[Any], options: Any) -> PoolSetup:
        made = PoolOptions(name="helper", size=options.get("size", 1), isolation="thread", stuck_after_ms=None)
        return PoolSetup(ChildSpec("nowhere:nothing"), made, None, recipe)

    pools = Pools(configure, clock=SystemClock(), publish=events.append)
    helper = await pools.pool(Helper, size=2)
    assert (await helper.where())[0] == os.getpid()
    await pools.scale(Helper, 3)
    await wait_until(lambda: pools.stats()["helper"].ready == 3)
    assert pools.list() == ("helper",)
    assert await pools.aclose(5_000) == 0
    assert shared.log == ["start"] * 3 + ["stop"] * 3
