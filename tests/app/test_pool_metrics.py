"""The metrics of an application's pools, with real children, and what switches them off."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from typing import Any

import pytest

from tests.app.working import Worker, until
from workfleet import App, Pool, Pools, PoolsModule, process, public
from workfleet.app.pool_metrics import PoolMetrics, pool_metrics
from workfleet.clock import SystemClock
from workfleet.errors import ChildDied
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.settings.sections import MetricsSettings

pytestmark = pytest.mark.usefixtures("project")
HERE = {"host": socket.gethostname(), "worker": "0"}


@process("images", size=2)
class Images:
    @public
    def resize(self, width: int) -> int:
        return width

    @public
    def fails(self) -> None:
        raise ValueError("no")

    @public
    def dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@process("quiet", size=1, monitoring={"metrics": False})
class Quiet:
    @public
    def work(self) -> None: ...


def values(registry: MetricsRegistry) -> dict[tuple[str, ...], float]:
    """Counters and gauges, and how often histograms were observed, by name and the labels but for this worker's."""
    return {
        (sample.name.removeprefix("workfleet_pool_"), *(value for key, value in sample.labels if key not in HERE)): (
            sample.count if sample.kind == "histogram" else sample.value
        )
        for sample in registry.snapshot()
        if sample.name.startswith("workfleet_pool_")
    }


async def test_calls_children_and_deaths_are_told_of_each_pool_that_wants_it() -> None:
    async with Worker(App("shop", jobs=[Images, Quiet])) as worker:
        pools = await worker.get(Pools)
        registry = MetricsRegistry()
        metrics = pool_metrics(registry, pools, MetricsSettings(), SystemClock(), index=0)
        assert values(registry) == {}, "no pool has started"
        images, quiet = await pools.pool(Images), await pools.pool(Quiet)
        await pools.get(Images).wait_ready()
        for width in range(5):
            assert await images.resize(width) == width
        for kind, call in ((ValueError, images.fails), (ChildDied, images.dies)):
            with pytest.raises(kind):
                await call()
        await quiet.work()
        await until(lambda: pools.stats()["images"].restarts == 1 and pools.stats()["images"].ready == 2, 60)
        metrics.measure()
        told = values(registry)
        counted = {key: value for key, value in told.items() if "child_" not in key[0] or "deaths" in key[0]}
        assert counted == {
            ("calls_total", "resize", "completed", "images"): 5, ("calls_total", "fails", "raised", "images"): 1,
            ("calls_total", "dies", "child_died", "images"): 1, ("call_wait_seconds", "images"): 7,
            ("call_duration_seconds", "resize", "images"): 5, ("call_duration_seconds", "fails", "images"): 1,
            ("restarts_total", "images"): 1, ("child_deaths_total", "crashed", "images"): 1,
            ("size", "images"): 2, ("queued_calls", "images"): 0,
            ("children", "images", "ready"): 2, ("children", "images", "busy"): 0,
        }  # fmt: skip
        gauges = [sample for sample in registry.snapshot() if sample.name == "workfleet_pool_size"]
        assert [dict(sample.labels) for sample in gauges] == [{**HERE, "pool": "images"}]


async def test_what_children_hold_in_memory_is_told_by_their_place_and_no_more_when_they_are_gone() -> None:
    async with Worker(App("shop", jobs=[Images])) as worker:
        pools = await worker.get(Pools)
        images = await pools.pool(Images)
        registry = MetricsRegistry()
        metrics = pool_metrics(registry, pools, MetricsSettings(), SystemClock(), index=0)
        await pools.get(Images).wait_ready()

        def memory() -> dict[tuple[str, ...], float]:
            metrics.measure()
            return {key: value for key, value in values(registry).items() if key[0] == "child_resident_memory_bytes"}

        async def both() -> None:
            while len(memory()) < 2:
                await images.resize(1)
                await asyncio.sleep(0.05)

        await asyncio.wait_for(both(), 30)
        assert {key[1:] for key in memory()} == {("0", "images"), ("1", "images")}
        assert all(value > 1_000_000 for value in memory().values())
        await pools.scale(Images, 1)
        await until(lambda: len(pools.stats()["images"].children) == 1, 60)
        assert len(memory()) == 1


async def test_durations_fall_into_buckets_that_are_right_and_add_up() -> None:
    registry = MetricsRegistry()
    async with Worker(App("shop", jobs=[Images])) as worker:
        pools = await worker.get(Pools)
        await pools.pool(Images)
        tally = pools.get(Images).tally
        assert tally is not None
        metrics = pool_metrics(registry, pools, MetricsSettings(), SystemClock(), index=0)

        def call(micros: int) -> Any:
            return type("C", (), {"method": "m", "made": 1.0, "begun": 1.0, "micros": micros})

        for micros in (10, 100, 100, 3_000_000):
            tally.completed(call(micros))
        metrics.count()
        tally.completed(call(120))
        metrics.count()
        metrics.count()
        (runs,) = [sample for sample in registry.snapshot() if sample.name == "workfleet_pool_call_duration_seconds"]
        assert (runs.count, runs.value) == (5, pytest.approx(3.00033))
        by_bound = {bound: times for bound, times in zip(runs.bounds, runs.buckets, strict=False) if times}
        assert by_bound == {64 / 1e6: 1, 128 / 1e6: 3, 2**22 / 1e6: 1}


async def test_a_pool_is_read_by_the_thread_that_it_is_used_in_only() -> None:
    async with Worker(App("shop", jobs=[Images])) as worker:
        pools = await worker.get(Pools)
        images: Pool[Images] = await pools.pool(Images)
        await images.resize(1)
        registry = MetricsRegistry()
        pool_metrics(registry, pools, MetricsSettings(), SystemClock(), index=0)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(values(registry)))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert found == [{}]
        assert values(registry)[("calls_total", "resize", "completed", "images")] == 1


async def test_the_module_can_switch_it_off_for_all() -> None:
    app = App("shop", modules=[PoolsModule(monitoring={"metrics": False})], jobs=[Images])
    async with Worker(app) as worker:
        images = await (await worker.get(Pools)).pool(Images)
        await images.resize(1)
        assert values(worker.runtime.registry) == {}


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_worker_that_collects_no_metrics_collects_none_of_pools(enabled: bool) -> None:
    said = {"metrics": {"collection": {"enabled": enabled}}}
    async with Worker(App("shop", jobs=[Images]), **said) as worker:
        images = await (await worker.get(Pools)).pool(Images)
        await images.resize(1)
        counted = ("calls_total", "resize", "completed", "images") in values(worker.runtime.registry)
        services = vars(worker.runtime._services)["_services"]
        assert counted == any(isinstance(service, PoolMetrics) for service in services) == enabled
