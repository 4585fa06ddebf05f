"""A pool's life: scaling, recycling, draining, stopping; hooks and health checks; factories."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun, kill, runs, wait_until
from tests.pools.workers import Basic, SlowShutdown
from workfleet.errors import PoolError, UsageError
from workfleet.events import ChildDied, ChildReplaced, ChildStarted, PoolScaled
from workfleet.pools import exits
from workfleet.pools.options import ChildSpec, RestartPolicy

BASIC = ChildSpec.of(Basic)
WORKERS = "tests.pools.workers"


async def test_scaling_up_and_down_while_busy_loses_nothing(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(BASIC)
    pool = made.pool
    gate = tmp_path / "gate"
    calls = [asyncio.create_task(pool.call("wait_for", (str(gate),))) for n in range(6)]
    await wait_until(lambda: pool.stats().busy == 1)
    pool.scale(3)
    await pool.wait_ready()
    assert (pool.stats().busy, pool.stats().queued) == (3, 3)
    pool.scale(1)
    assert (pool.stats().size, pool.stats().busy) == (1, 3)
    gate.touch()
    assert await asyncio.gather(*calls) == ["done"] * 6
    await wait_until(lambda: len(pool.stats().pids) == 1)
    assert [(event.old, event.new) for event in made.told(PoolScaled)] == [(1, 3), (3, 1)]
    assert (pool.stats().state, pool.stats().calls, pool.stats().failures) == ("running", 6, 0)
    assert made.told(ChildDied) == []
    with pytest.raises(UsageError, match="at least 1"):
        pool.scale(0)


async def test_recycling_waits_for_the_calls(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(BASIC, size=2)
    await made.pool.wait_ready()
    before = set(made.pool.stats().pids)
    call = asyncio.create_task(made.pool.call("begin", (str(tmp_path / "a"), 0.3)))
    await begun(tmp_path / "a")
    made.pool.recycle()
    assert await call == "done"
    await wait_until(lambda: len(made.told(ChildReplaced)) == 2 and not before & set(made.pool.stats().pids))
    assert {event.why for event in made.told(ChildReplaced)} == {"recycled"}
    assert made.told(ChildDied) == []
    assert made.pool.stats().restarts == 0


async def test_draining_ends_the_calls_and_takes_no_more(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    calls = [asyncio.create_task(pool.call("begin", (str(tmp_path / str(n)), 0.1))) for n in range(3)]
    await begun(tmp_path / "0")
    drained = asyncio.create_task(pool.drain(5_000))
    await asyncio.sleep(0)
    with pytest.raises(PoolError, match="is draining"):
        await pool.call("echo", (1,))
    assert pool.stats().state == "draining"
    assert await drained == 0
    assert await asyncio.gather(*calls) == ["done"] * 3


async def test_draining_has_a_deadline(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    calls = [asyncio.create_task(pool.call("begin", (str(tmp_path / str(n)), 60))) for n in range(2)]
    pid = await begun(tmp_path / "0")
    assert await pool.drain(100) == 2
    assert runs(pid)
    assert await pool.stop(100) == 1
    assert not runs(pid)
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) is not asyncio.CancelledError and isinstance(error, PoolError) for error in errors] == [
        True
    ] * 2
    assert (pool.stats().state, pool.stats().pids) == ("stopped", ())


async def test_stopping_lets_a_running_call_end(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC).pool
    call = asyncio.create_task(pool.call("begin", (str(tmp_path / "a"), 0.4)))
    await begun(tmp_path / "a")
    waiting = asyncio.create_task(pool.call("echo", (1,)))
    await asyncio.sleep(0)
    assert await pool.stop(5_000) == 0
    assert await call == "done"
    with pytest.raises(PoolError, match="is stopping"):
        await waiting
    with pytest.raises(PoolError, match="is stopping"):
        await pool.call("echo", (1,))


async def test_stopping_while_children_start(make_pool: MakePool) -> None:
    pool = make_pool(ChildSpec(f"{WORKERS}:slow_to_build"), size=2).pool
    await wait_until(lambda: len(pool.stats().pids) == 2)
    started = time.monotonic()
    assert await pool.stop(5_000) == 0
    assert time.monotonic() - started < 2.0


async def test_hooks_run_in_the_child_in_their_order(make_pool: MakePool, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    made = make_pool(ChildSpec(f"{WORKERS}:context_hooks", (str(journal),)))
    await made.pool.call("word", ("call",))
    assert await made.pool.stop(5_000) == 0
    # One hook fails: the others run all the same, what the factory left is closed, and the failure is told.
    assert journal.read_text().split("\n") == ["start", "astart", "call", "shutdown", "last", "context left", ""]
    (died,) = made.told(ChildDied)
    assert died.how == "exit code 1"
    assert died.last_words.endswith("NotFunny: in shutdown\n")


async def test_an_async_factory(make_pool: MakePool) -> None:
    pool = make_pool(ChildSpec(f"{WORKERS}:async_basic", ("x",))).pool
    assert await pool.call("add", (1,)) == 2


async def test_shutdown_hooks_have_a_timeout(make_pool: MakePool) -> None:
    made = make_pool(ChildSpec.of(SlowShutdown), graceful_timeout_ms=300)
    pid = await made.pool.call("pid")
    assert await made.pool.stop(10_000) == 0  # not the pool's deadline: the child's own
    assert not runs(pid)
    (died,) = made.told(ChildDied)
    assert died.why == "did not stop within 300 ms (the pool is stopping)"


async def test_a_child_that_says_it_is_ill_is_replaced(make_pool: MakePool, tmp_path: Path) -> None:
    illness = tmp_path / "ill"
    spec = ChildSpec(f"{WORKERS}:patient", (str(illness),))
    made = make_pool(spec, health_interval_ms=50, restart=RestartPolicy(delay_ms=0))
    pid = await made.pool.call("pid")
    illness.touch()
    await wait_until(lambda: not runs(pid))
    illness.unlink()
    await wait_until(lambda: bool(made.told(ChildReplaced)))
    assert made.told(ChildReplaced)[0].why.startswith("is not healthy: check returned False")
    assert await made.pool.call("pid") != pid


async def test_an_idle_child_that_does_not_answer_is_replaced(make_pool: MakePool) -> None:
    made = make_pool(BASIC, health_interval_ms=50, health_timeout_ms=300, restart=RestartPolicy(delay_ms=0))
    pid = await made.pool.call("pid")
    os.kill(pid, signal.SIGSTOP)
    await wait_until(lambda: bool(made.told(ChildReplaced)))
    assert made.told(ChildDied)[0].why.startswith("did not answer a health check within 300 ms")
    assert not runs(pid)
    assert await made.pool.call("echo", (1,)) == 1


async def test_the_sweep_finds_a_child_that_died_without_anybody_telling(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exits, "watch", lambda pid, tell: lambda: None)
    made = make_pool(BASIC, sweep_interval_ms=50, health_interval_ms=None, restart=RestartPolicy(delay_ms=0))
    pid = await made.pool.call("pid")
    kill(pid)
    assert await made.pool.call("pid") != pid
    assert made.told(ChildDied)[0].how == "signal SIGKILL"


async def test_exits_are_noticed_without_pidfd_too(make_pool: MakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    made = make_pool(BASIC, restart=RestartPolicy(delay_ms=0))
    pid = await made.pool.call("pid")
    kill(pid)
    assert await made.pool.call("pid") != pid


async def test_a_busy_child_is_not_asked(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(BASIC, health_interval_ms=50, health_timeout_ms=100).pool
    await pool.wait_ready()
    assert await pool.call("begin", (str(tmp_path / "a"), 0.6)) == "done"
    assert pool.stats().restarts == 0


async def test_starts_are_told(make_pool: MakePool) -> None:
    made = make_pool(BASIC, size=2)
    assert made.pool.stats().state == "starting"
    await made.pool.wait_ready()
    await wait_until(lambda: len(made.told(ChildStarted)) == 2)
    assert {event.pid for event in made.told(ChildStarted)} == set(made.pool.stats().pids)
    assert {event.slot for event in made.told(ChildStarted)} == {0, 1}
    assert all(event.duration_ms > 0 for event in made.told(ChildStarted))
