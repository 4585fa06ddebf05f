"""A child that dies takes one call along; it is replaced, and nothing else is lost. A crash loop ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import begun, kill, wait_until
from tests.pools.workers import Basic
from workfleet.errors import ChildDied, PoolFailed
from workfleet.events import ChildDied as ChildDiedEvent
from workfleet.events import ChildReplaced
from workfleet.events import PoolFailed as PoolFailedEvent
from workfleet.model.policy import Backoff
from workfleet.pools.options import ChildSpec, RestartPolicy

BASIC = ChildSpec.of(Basic)
QUICK = RestartPolicy(max_restarts=2, delay_ms=0, backoff=Backoff("fixed", 10, 10, "none"))
WORKERS = "tests.pools.workers"


async def test_an_idle_child_that_is_killed_is_replaced(make_pool: MakePool) -> None:
    made = make_pool(BASIC, size=2, restart=RestartPolicy(delay_ms=0))
    await made.pool.wait_ready()
    first, second = made.pool.stats().pids
    kill(first)
    await wait_until(lambda: bool(made.told(ChildReplaced)))
    (died,) = made.told(ChildDiedEvent)
    assert (died.pid, died.how, died.method) == (first, "signal SIGKILL", None)
    (replaced,) = made.told(ChildReplaced)
    assert (replaced.old_pid, replaced.why) == (first, "signal SIGKILL")
    assert set(made.pool.stats().pids) == {replaced.pid, second}
    assert made.pool.stats().restarts == 1
    assert made.pool.stats().state == "running"


@pytest.mark.parametrize(
    ("how", "said"), [("SIGKILL", "signal SIGKILL"), ("exit", "exit code 3"), ("segfault", "signal SIGSEGV")]
)
async def test_only_the_call_in_flight_fails(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    made = make_pool(BASIC, restart=RestartPolicy(delay_ms=0))
    pid = await made.pool.call("pid")
    dying = asyncio.create_task(made.pool.call("die", (how,)))
    waiting = [asyncio.create_task(made.pool.call("echo", (number,))) for number in range(50)]
    with pytest.raises(ChildDied) as caught:
        await dying
    error = caught.value
    assert (error.pool, error.method, error.pid, error.how) == ("test", "die", pid, said)
    assert error.last_words.startswith("famous last words")
    assert ("Segmentation fault" in error.last_words) == (how == "segfault")
    assert made.lines[:1] == [("stderr", "famous last words")]
    assert [line for line in made.lines if line[0] == "stdout"] == [
        ("stdout", "a last line"),
        ("stdout", "and an unfinished one"),
    ]
    assert await asyncio.gather(*waiting) == list(range(50))
    (died,) = made.told(ChildDiedEvent)
    assert (died.method, died.how) == ("die", said)
    stats = made.pool.stats()
    assert (stats.calls, stats.failures, stats.restarts, stats.ready) == (52, 1, 1, 1)


async def test_calls_sent_ahead_to_a_child_that_dies_are_not_lost(make_pool: MakePool) -> None:
    made = make_pool(BASIC, restart=RestartPolicy(delay_ms=0))
    await asyncio.gather(*(made.pool.call("echo", (number,)) for number in range(100)))  # it is known to be quick
    before = made.pool.stats().pids
    calls = [asyncio.create_task(made.pool.call("echo", (number,))) for number in range(400)]
    dying = asyncio.create_task(made.pool.call("die"))
    calls += [asyncio.create_task(made.pool.call("echo", (number,))) for number in range(400, 800)]
    with pytest.raises(ChildDied):
        await dying
    assert await asyncio.gather(*calls) == list(range(800))
    assert made.pool.stats().pids != before


async def test_a_huge_argument_while_the_child_dies(make_pool: MakePool) -> None:
    made = make_pool(BASIC, restart=RestartPolicy(delay_ms=0))
    await made.pool.wait_ready()
    data = bytes(64_000_000)
    (pid,) = made.pool.stats().pids
    os.kill(pid, signal.SIGSTOP)  # or it may have read all of it before it dies
    call = asyncio.create_task(made.pool.call("size", (data,)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the frame is being written
    kill(pid)
    assert await call == ("bytes", len(data))  # it had not begun: the next child runs it
    assert made.pool.stats().restarts == 1


async def test_one_that_dies_at_its_start_is_tried_again(make_pool: MakePool, tmp_path: Path) -> None:
    spec = ChildSpec(f"{WORKERS}:crash_until", (str(tmp_path / "tries"), 2))
    made = make_pool(spec, restart=QUICK)
    assert await made.pool.call("echo", ("at last",)) == "at last"
    assert [event.how for event in made.told(ChildDiedEvent)] == ["exit code 9", "exit code 9"]
    assert "while building" in made.told(ChildDiedEvent)[0].why
    assert made.pool.stats().restarts == 2


async def test_a_crash_loop_ends_in_a_failed_pool_and_the_parent_lives(make_pool: MakePool, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    made = make_pool(ChildSpec(f"{WORKERS}:crash_until", (str(tries), 1_000)), size=2, restart=QUICK)
    waiting = asyncio.create_task(made.pool.call("pid"))
    with pytest.raises(PoolFailed, match="5 children died and none completed a call; the last: exit code 9") as caught:
        await made.pool.wait_ready()
    with pytest.raises(PoolFailed):
        await waiting
    with pytest.raises(PoolFailed, match="takes no calls"):
        await made.pool.call("pid")
    (failed,) = made.told(PoolFailedEvent)
    assert failed.reason == caught.value.reason
    stats = made.pool.stats()
    assert (stats.state, stats.ready, stats.restarts, stats.reason) == ("failed", 0, 4, failed.reason)
    await wait_until(lambda: made.pool.stats().pids == ())
    # An operator can have it tried again.
    tries.write_text("x" * 1_000)
    made.pool.scale(1)
    assert await made.pool.call("echo", (1,)) == 1
    assert made.pool.stats().state == "running"


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("tests.pools.no_such_module:f", "No module named 'tests.pools.no_such_module'"),
        (f"{WORKERS}:no_such_factory", "no_such_factory"),
        (f"{WORKERS}:cannot", "NotFunny('no database')"),
    ],
)
async def test_a_child_that_cannot_be_built_says_why(make_pool: MakePool, factory: str, said: str) -> None:
    made = make_pool(ChildSpec(factory), restart=RestartPolicy(max_restarts=0))
    with pytest.raises(PoolFailed) as caught:
        await made.pool.wait_ready()
    assert "could not be built" in caught.value.reason
    assert said in caught.value.reason
    words = made.told(ChildDiedEvent)[0].last_words
    assert "Traceback" in words
    if factory.endswith(":cannot"):
        assert re.findall(r"in (\w+)$", words, re.MULTILINE) == ["cannot"], "not how it came to be called"


async def test_start_up_has_a_timeout_that_says_what_it_was_doing(make_pool: MakePool) -> None:
    spec = ChildSpec(f"{WORKERS}:slow_to_build")
    made = make_pool(spec, startup_timeout_ms=2_000, restart=RestartPolicy(max_restarts=0))
    with pytest.raises(PoolFailed, match="was not ready within 2000 ms, still building"):
        await made.pool.wait_ready()


async def test_without_restarts_a_dead_child_is_not_replaced(make_pool: MakePool) -> None:
    made = make_pool(BASIC, size=2, restart=RestartPolicy(enabled=False))
    await made.pool.wait_ready()
    first, second = made.pool.stats().pids
    kill(first)
    await wait_until(lambda: made.pool.stats().pids == (second,))
    assert await made.pool.call("pid") == second
    await made.pool.wait_ready()
    assert (made.pool.stats().size, made.pool.stats().state) == (1, "running")
    kill(second)
    await wait_until(lambda: made.pool.stats().state == "failed")
    with pytest.raises(PoolFailed, match="restarts are off: signal SIGKILL"):
        await made.pool.call("pid")


async def test_a_child_killed_in_the_middle_of_a_long_call(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(BASIC, size=2, restart=RestartPolicy(delay_ms=0))
    call = asyncio.create_task(made.pool.call("begin", (str(tmp_path / "mark"),)))
    pid = await begun(tmp_path / "mark")
    kill(pid)
    with pytest.raises(ChildDied):
        await call
    await made.pool.wait_ready()
    assert len(made.pool.stats().pids) == 2
