"""Memory, event-loop lag and store: what they measure and when it is bad."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from tests.observe.manual_clock import ManualClock
from workfleet.clock import SystemClock
from workfleet.health.cgroup import CgroupMemory, read_cgroup_memory
from workfleet.health.lag import LoopLagIndicator, LoopLagSampler
from workfleet.health.memory import MemoryIndicator
from workfleet.health.process import OwnProcess, host_memory_bytes
from workfleet.health.store import StoreIndicator
from workfleet.ports.metrics import ProcessFacts

# Memory


def memory(rss: int, group: CgroupMemory | None, host: int = 1000) -> MemoryIndicator:
    return MemoryIndicator(lambda: ProcessFacts(rss_bytes=rss, cpu_seconds=0, threads=1), host, cgroup=lambda: group)


@pytest.mark.parametrize(
    ("rss", "group", "status", "reason"),
    [
        (799, None, "healthy", ""),
        (800, None, "degraded", "80% of the machine's memory is used (800 of 1000 bytes)"),
        (949, None, "degraded", "95% of the machine's memory is used (949 of 1000 bytes)"),
        (950, None, "unhealthy", "95% of the machine's memory is used (950 of 1000 bytes)"),
        (10, CgroupMemory(limit=100, used=79), "healthy", ""),
        (10, CgroupMemory(limit=100, used=80), "degraded", "80% of the memory limit is used (80 of 100 bytes)"),
        (96, CgroupMemory(limit=100, used=10), "unhealthy", "96% of the memory limit is used (96 of 100 bytes)"),
        (10, CgroupMemory(limit=1000, used=999), "healthy", ""),
    ],
)
async def test_memory(rss: int, group: CgroupMemory | None, status: str, reason: str) -> None:
    said = await memory(rss, group).check()
    assert (said.status, said.reason) == (status, reason)
    assert said.facts["rss_bytes"] == rss


async def test_memory_thresholds_and_facts() -> None:
    indicator = MemoryIndicator(
        lambda: ProcessFacts(rss_bytes=50, cpu_seconds=0, threads=1),
        100,
        cgroup=lambda: None,
        degraded_from=0.4,
        unhealthy_from=0.6,
        critical=True,
    )
    said = await indicator.check()
    assert (said.status, indicator.critical, indicator.name) == ("degraded", True, "memory")
    assert said.facts == {"rss_bytes": 50, "used_bytes": 50, "limit_bytes": 100, "share": 0.5}


async def test_the_real_process_and_machine() -> None:
    read = OwnProcess().read
    before = read()
    assert 5_000_000 < before.rss_bytes < host_memory_bytes()
    block = bytearray(os.urandom(1)) * 64_000_000
    thread_running, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (thread_running.set(), stop.wait()))
    thread.start()
    thread_running.wait()
    with open(os.devnull) as file:
        after = read()
    stop.set()
    thread.join()
    assert (len(block), file.closed) == (64_000_000, True)
    assert after.rss_bytes - before.rss_bytes > 50_000_000
    assert after.threads == before.threads + 1
    assert before.open_fds is not None
    assert after.open_fds == before.open_fds + 1
    assert after.cpu_seconds >= before.cpu_seconds > 0
    assert (await MemoryIndicator(read, host_memory_bytes()).check()).facts["rss_bytes"]


# Control groups


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        (  # a container sees its group as the root
            {
                "proc/self/cgroup": "0::/\n",
                f"{V2}/memory.max": "1000\n",
                f"{V2}/memory.current": "700\n",
                f"{V2}/memory.stat": "anon 300\ninactive_file 150\nfile 400\n",
            },
            CgroupMemory(1000, 550),
        ),
        (  # no limit here, one above
            {
                "proc/self/cgroup": "0::/pods/one/app\n",
                f"{V2}/pods/one/app/memory.max": "max\n",
                f"{V2}/pods/one/app/memory.current": "10\n",
                f"{V2}/pods/one/memory.max": "400\n",
                f"{V2}/pods/one/memory.current": "100\n",
            },
            CgroupMemory(400, 100),
        ),
        (  # two limits: the one that is nearer to being reached
            {
                "proc/self/cgroup": "0::/a/b\n",
                f"{V2}/a/b/memory.max": "100\n",
                f"{V2}/a/b/memory.current": "10\n",
                f"{V2}/a/memory.max": "200\n",
                f"{V2}/a/memory.current": "190\n",
            },
            CgroupMemory(200, 190),
        ),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                f"{V2}/a/b/memory.max": "100\n",
                f"{V2}/a/b/memory.current": "90\n",
                f"{V2}/a/memory.max": "200\n",
                f"{V2}/a/memory.current": "100\n",
            },
            CgroupMemory(100, 90),
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/\n",
                f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/memory.usage_in_bytes": "5\n",
            },
            None,
        ),
        (
            {
                "proc/self/cgroup": "12:cpu,cpuacct:/d\n5:memory:/d\n1:name=systemd:/d\n",
                f"{V1}/d/memory.limit_in_bytes": "1000\n",
                f"{V1}/d/memory.usage_in_bytes": "900\n",
                f"{V1}/d/memory.stat": "inactive_file 1\ntotal_inactive_file 300\n",
                f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/memory.usage_in_bytes": "5\n",
            },
            CgroupMemory(1000, 600),
        ),
        (  # version 1 in a container: the path is the host's, the mount is the own group
            {
                "proc/self/cgroup": "5:memory:/docker/abc\n",
                f"{V1}/memory.limit_in_bytes": "1000\n",
                f"{V1}/memory.usage_in_bytes": "100\n",
            },
            CgroupMemory(1000, 100),
        ),
        (
            {
                "proc/self/cgroup": "0::/../..\ngarbage\n",
                f"{V2}/memory.max": "0\n",
                f"{V2}/memory.current": "x\n",
            },
            None,
        ),
    ],
    ids=["none", "unlimited", "container", "above", "outer", "inner", "v1-unlimited", "v1", "v1-container", "odd"],
)
def test_cgroups(tmp_path: Path, files: dict[str, str], expected: CgroupMemory | None) -> None:
    write(tmp_path, files)
    assert read_cgroup_memory(tmp_path) == expected


# Event-loop lag


async def test_no_sample_yet_is_healthy() -> None:
    said = await LoopLagIndicator(LoopLagSampler(ManualClock())).check()
    assert (said.status, said.facts) == ("healthy", {"p99_ms": None})


def test_percentiles() -> None:
    sampler = LoopLagSampler(ManualClock(), interval_ms=1000, window_ms=100_000)
    assert (sampler.percentile_ms(99), sampler.max_ms) == (None, 0)
    for number in range(1, 101):
        sampler.record(number / 1000)
    assert (sampler.percentile_ms(99), sampler.percentile_ms(50), sampler.percentile_ms(100)) == (99, 50, 100)
    assert sampler.max_ms == 100
    for _ in range(100):
        sampler.record(0.001)
    assert (sampler.percentile_ms(99), sampler.max_ms) == (1, 1), "the window forgets"


def test_a_block_counts_for_as_long_as_it_lasts() -> None:
    sampler = LoopLagSampler(ManualClock(), interval_ms=100, window_ms=30_000)
    for _ in range(300):
        sampler.record(0.0)
    sampler.record(1.0)
    # 1.0, 0.9 … 0.1, 0.0: 3 of 300 samples are later than the 99th percentile.
    assert sampler.percentile_ms(99) == pytest.approx(700)
    sampler.record(3_600.0)
    assert sampler.percentile_ms(99) == pytest.approx(3_600_000 - 300)


@pytest.mark.parametrize(("lag_s", "status"), [(0.049, "healthy"), (0.05, "degraded"), (0.1, "unhealthy")])
async def test_lag_thresholds(lag_s: float, status: str) -> None:
    sampler = LoopLagSampler(ManualClock())
    sampler.record(lag_s)
    said = await LoopLagIndicator(sampler).check()
    assert said.status == status
    assert said.facts == {"p99_ms": lag_s * 1000, "max_ms": lag_s * 1000}
    assert said.reason == (
        "" if status == "healthy" else f"the event loop is {lag_s * 1000:.0f} ms late (99th percentile)"
    )
    assert (await LoopLagIndicator(sampler, degraded_from_ms=1000, unhealthy_from_ms=2000).check()).status == "healthy"


async def test_the_sampler_sees_a_blocked_loop() -> None:
    sampler = LoopLagSampler(SystemClock(), interval_ms=10)
    task = asyncio.create_task(sampler.serve())
    async with asyncio.timeout(5):
        while sampler.percentile_ms(100) is None:
            await asyncio.sleep(0)
        time.sleep(0.2)
        while sampler.max_ms < 150:
            await asyncio.sleep(0)
    assert (await LoopLagIndicator(sampler).check()).status == "unhealthy"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Store


@pytest.mark.parametrize(("took_s", "status"), [(0.249, "healthy"), (0.25, "degraded"), (1.5, "unhealthy")])
async def test_the_stores_round_trip(took_s: float, status: str) -> None:
    clock = ManualClock()

    async def round_trip() -> None:
        clock.pass_time(took_s)

    indicator = StoreIndicator(round_trip, clock)
    said = await indicator.check()
    assert (said.status, said.facts, indicator.critical) == (status, {"round_trip_ms": took_s * 1000}, True)
    assert said.reason == ("" if status == "healthy" else f"a claim took {took_s * 1000:.0f} ms")


async def test_a_store_that_raises_is_left_to_the_service() -> None:
    async def refuses() -> None:
        raise ConnectionError("refused")

    with pytest.raises(ConnectionError):
        await StoreIndicator(refuses, ManualClock()).check()
