"""A child at work that makes no progress is ended and says where it stood; one that works in any way is let alone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.pools.conftest import MakePool
from tests.pools.supervised import Worker
from tests.pools.support import begun, runs
from workfleet.errors import CallStuck, ChildDied
from workfleet.events import ChildDied as ChildDiedEvent
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.stuck import StuckWatch

WORKER = ChildSpec.of(Worker)
STUCK: dict[str, Any] = {"stuck_after_ms": 1_000, "call_timeout_ms": None}


@pytest.mark.parametrize(("method", "line"), [("block", "ours.recv(1)"), ("deadlock", "lock.acquire()")])
async def test_a_call_that_waits_for_what_never_comes_is_ended_and_tells_where_it_stood(
    make_pool: MakePool, tmp_path: Path, method: str, line: str
) -> None:
    made = make_pool(WORKER, **STUCK)
    call = asyncio.create_task(made.pool.call(method, (str(tmp_path / "mark"),)))
    pid = await begun(tmp_path / "mark")
    with pytest.raises(CallStuck) as caught:
        await call
    error = caught.value
    assert (error.pool, error.method, error.pid, error.stuck_ms, error.code) == (
        "test",
        method,
        pid,
        1_000,
        "call_stuck",
    )
    source = (Path(__file__).parent / "supervised.py").read_text().splitlines()
    number = next(number for number, text in enumerate(source, 1) if text.strip() == line)
    assert f'supervised.py", line {number} in {method}' in error.last_words
    (died,) = made.told(ChildDiedEvent)
    assert (died.pid, died.method, died.why) == (pid, method, f"{method} made no progress for 1 s")
    assert died.cause == "call_stuck"
    assert not runs(pid)
    assert await made.pool.call("pid") != pid
    assert made.pool.stats().restarts == 0  # its end was the pool's own doing


async def test_a_child_that_was_stopped_in_the_middle_of_a_call_is_stuck(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, **STUCK)
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    call = asyncio.create_task(made.pool.call("wait_for", (str(gate), str(mark))))
    os.kill(await begun(mark), signal.SIGSTOP)
    with pytest.raises(CallStuck):
        await call
    gate.touch()
    assert await made.pool.call("wait_for", (str(gate),))


async def test_a_stream_that_stops_in_its_middle_is_stuck(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, **STUCK)
    items = made.pool.stream("one_then_block", (str(tmp_path / "mark"),))
    assert await anext(items) == 1
    with pytest.raises(CallStuck):
        await anext(items)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("compute", (3.0,)),
        ("run_program", (3.0,)),
        ("wait_async", (3.0,)),
    ],
)
async def test_a_child_that_works_is_let_alone(make_pool: MakePool, method: str, arguments: tuple[Any, ...]) -> None:
    made = make_pool(WORKER, **STUCK)
    await made.pool.call(method, arguments)
    assert made.told(ChildDiedEvent) == []


@pytest.mark.full
async def test_a_child_that_holds_the_interpreter_lock_is_let_alone(make_pool: MakePool) -> None:
    made = make_pool(WORKER, **STUCK)
    letters = 20
    loop = asyncio.get_running_loop()
    while True:  # until one takes longer than the limit on this machine
        started = loop.time()
        assert await made.pool.call("compute_in_c", (letters,))
        if loop.time() - started > 2.0:
            break
        letters += 1
    assert made.told(ChildDiedEvent) == []


@pytest.mark.full
async def test_progress_counts(make_pool: MakePool) -> None:
    class Heard:
        def __init__(self) -> None:
            self.values: list[Any] = []

        def log(self, entry: Any) -> None: ...
        def progress(self, value: Any) -> None:
            self.values.append(value)

    made, heard = make_pool(WORKER, **STUCK), Heard()
    assert await made.pool.call("tell", (6, 0.6), listener=heard) == 6
    assert heard.values == list(range(6))
    with pytest.raises(CallStuck):
        await made.pool.call("rest", (60.0,))


async def test_a_stream_whose_consumer_takes_its_time_is_let_alone(make_pool: MakePool) -> None:
    made = make_pool(WORKER, **STUCK)
    items = made.pool.stream("numbers", (20,))
    assert await anext(items) == 0
    await asyncio.sleep(2.5)
    assert [item async for item in items] == list(range(1, 20))
    assert made.told(ChildDiedEvent) == []


async def test_it_can_be_switched_off(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, stuck_after_ms=None, call_timeout_ms=None, sweep_interval_ms=100)
    call = asyncio.create_task(made.pool.call("block", (str(tmp_path / "mark"),)))
    pid = await begun(tmp_path / "mark")
    await asyncio.wait({call}, timeout=2.0)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildDied):
        await call


class LookedAt:
    """A child that is at work on one call for ever."""

    def __init__(self) -> None:
        self.pid = 1
        self.dumps = 0

    def begun(self) -> int:
        return 1

    def beats(self) -> int:
        return 0

    def dump(self) -> None:
        self.dumps += 1


class AtWork:
    """A member as far as the watch looks at it."""

    def __init__(self) -> None:
        self.child = LookedAt()
        self.heard = 0
        self.line = self
        self.head = self
        self.id = 1
        self.items = None
        self.killed: list[int] = []

    def kill_stuck(self, stuck_ms: int) -> None:
        self.killed.append(stuck_ms)


class JumpyClock:
    """Sleeps as long as its list says, whatever it was asked for."""

    def __init__(self, lasts: list[float]) -> None:
        self.lasts = lasts
        self.now = 0.0
        self.asked: list[float] = []

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        if not self.lasts:
            raise asyncio.CancelledError
        self.now += self.lasts.pop(0)


@pytest.mark.parametrize(
    ("lasts", "killed"),
    [
        ([10.0] * 5, []),
        ([10.0] * 7, [40_000]),
        # This process stood still for an hour: that is no hour of the child's.
        ([10.0] * 3 + [3_600.0], []),
        ([10.0] * 3 + [3_600.0] + [10.0] * 2, [40_000]),
    ],
)
async def test_only_time_in_which_this_process_looked_counts(lasts: list[float], killed: list[int]) -> None:
    member, clock = AtWork(), JumpyClock(list(lasts))
    options = PoolOptions(name="p", size=1, sweep_interval_ms=30_000)
    watch = StuckWatch(40_000, options, lambda: [member], clock, lambda pid: 5)  # type: ignore[list-item,return-value]
    with pytest.raises(asyncio.CancelledError):
        await watch.serve()
    assert member.killed == killed
    assert member.child.dumps == len(killed)
    assert clock.asked[0] == 10.0


async def test_what_goes_on_after_all_is_not_killed() -> None:
    member = AtWork()
    clock = JumpyClock([10.0] * 7)
    dump = member.child.dump

    def wake() -> None:
        dump()
        member.heard += 1

    member.child.dump = wake  # type: ignore[method-assign]
    options = PoolOptions(name="p", size=1, sweep_interval_ms=30_000)
    watch = StuckWatch(40_000, options, lambda: [member], clock, lambda pid: 5)  # type: ignore[list-item,return-value]
    with pytest.raises(asyncio.CancelledError):
        await watch.serve()
    assert (member.killed, member.child.dumps) == ([], 1)
