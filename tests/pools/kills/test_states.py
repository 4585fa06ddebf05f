"""A child is killed in every state of its life: the pool is as before, and at most the call that it had begun fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.kills import inventory
from tests.pools.kills.conftest import AT_ONCE
from tests.pools.kills.victims import Victim
from tests.pools.kills.ward import OpenWard, Ward, settled
from tests.pools.support import begun, kill, wait_until
from workfleet.errors import ChildDied
from workfleet.events import ChildDied as ChildDiedEvent
from workfleet.events import ChildReplaced, ReplacementFailed
from workfleet.pools.options import ChildSpec

VICTIMS = "tests.pools.kills.victims_slow"
PHASES = {
    "importing": "tests.pools.kills.victims_slow_to_import:make",
    "building": f"{VICTIMS}:slow_building",
    "in @on_start": f"{VICTIMS}:slow_start",
}


async def test_idle(open_ward: OpenWard) -> None:
    ward = await open_ward()
    first, second = ward.pool.stats().pids
    kill(first)
    ward.others()
    await ward.whole()
    assert first not in ward.pids
    assert second in ward.pids
    (died,) = ward.made.told(ChildDiedEvent)
    assert (died.pid, died.how) == (first, "signal SIGKILL")
    assert ward.pool.stats().failures == 0


@pytest.mark.full
async def test_all_at_once_again_and_again(open_ward: OpenWard) -> None:
    ward = await open_ward(size=4)
    for _ in range(5):
        for pid in ward.pids:
            kill(pid)
        ward.others(100)
        await ward.whole()
    assert ward.pool.stats().failures == 0


@pytest.mark.parametrize(
    "phase", ["building", *(pytest.param(each, marks=pytest.mark.full) for each in ("importing", "in @on_start"))]
)
async def test_starting(make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    monkeypatch.setenv("WORKFLEET_TEST_FOLDER", str(tmp_path))
    foreign = inventory.descendants()
    before = inventory.taken(foreign)
    arguments = () if phase == "importing" else (str(tmp_path),)
    ward = Ward(make_pool(ChildSpec(PHASES[phase], arguments), size=2, restart=AT_ONCE))
    waiting = [asyncio.create_task(ward.pool.call("echo", (number,))) for number in range(20)]
    killed = await begun(tmp_path / "mark")
    kill(killed)
    assert await asyncio.gather(*waiting) == list(range(20))
    await ward.open()
    (died,) = ward.made.told(ChildDiedEvent)
    assert (died.pid, died.why) == (killed, f"signal SIGKILL while {phase}")
    await ward.pool.stop(5_000)
    await settled(before, foreign)


@pytest.mark.full
async def test_starting_its_interpreter(make_pool: MakePool) -> None:
    foreign = inventory.descendants()
    before = inventory.taken(foreign)
    ward = Ward(make_pool(ChildSpec.of(Victim), size=2, restart=AT_ONCE))
    waiting = [asyncio.create_task(ward.pool.call("echo", (number,))) for number in range(20)]
    await wait_until(lambda: bool(ward.pids))
    killed = min(ward.pids)
    kill(killed)  # nothing but exec has happened yet
    assert await asyncio.gather(*waiting) == list(range(20))
    await ward.open()
    (died,) = ward.made.told(ChildDiedEvent)
    assert (died.pid, died.why) == (killed, "signal SIGKILL while starting the interpreter")
    await ward.pool.stop(5_000)
    await settled(before, foreign)


@pytest.mark.full
async def test_starting_to_replace_another(open_ward: OpenWard, tmp_path: Path) -> None:
    """Those that are to be replaced serve on, and are replaced later."""
    ward = await open_ward(ChildSpec(f"{VICTIMS}:slow_once_armed", (str(tmp_path),)))
    before = ward.pids
    (tmp_path / "armed").touch()
    ward.pool.recycle()
    killed = await begun(tmp_path / "mark")
    ward.others()
    kill(killed)
    ward.others()
    await wait_until(lambda: not before & ward.pids)
    await ward.whole()
    failed = ward.made.told(ReplacementFailed)
    assert {(event.pid, event.why) for event in failed} == {(pid, "signal SIGKILL while building") for pid in before}
    assert (ward.pool.stats().failures, ward.pool.stats().restarts) == (0, 0)


async def test_in_the_middle_of_a_call(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call("hang", (str(mark),)))
    pid = await begun(mark)
    kill(pid)
    error = await ward.fails(call, ChildDied)
    assert (error.pool, error.method, error.pid, error.how) == ("test", "hang", pid, "signal SIGKILL")
    await ward.whole()
    assert pid not in ward.pids
    assert ward.pool.stats().failures == 1


@pytest.mark.full
async def test_in_the_middle_of_a_stream(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    mark = tmp_path / "mark"
    items = []

    async def consume() -> None:
        async for item in ward.pool.stream("count_for_ever", (str(mark),)):
            items.append(item)
            if item == 100:
                kill(await begun(mark))

    error = await ward.fails(consume(), ChildDied)
    assert error.method == "count_for_ever"
    assert items == list(range(len(items)))  # what had arrived was handed on, in order
    assert len(items) > 100
    await ward.whole()


@pytest.mark.full
async def test_behind_many_calls_that_were_sent_ahead(open_ward: OpenWard, tmp_path: Path) -> None:
    """They are given to another child: none is lost, none runs twice, and only the one that had begun fails."""
    ward = await open_ward()
    for _ in range(10):
        ward.others(200)  # quick ones go ahead in numbers
        await asyncio.sleep(0)
        for pid in ward.pids:
            kill(pid)
        lost = 0
        for number, call in ward.taken():
            try:
                assert await call == number
            except ChildDied:
                lost += 1
        assert lost <= 2, "more failed than there were children"
        await ward.whole()


@pytest.mark.full
async def test_draining_with_a_call(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward()
    marks = [tmp_path / "first", tmp_path / "second"]
    calls = [asyncio.create_task(ward.pool.call("hang", (str(mark),))) for mark in marks]
    pids = [await begun(mark) for mark in marks]
    ward.others()
    ward.pool.scale(1)  # one of them goes when its call has ended
    kill(pids[0])
    kill(pids[1])
    ward.pool.scale(2)
    for call, pid in zip(calls, pids, strict=True):
        assert (await ward.fails(call, ChildDied)).pid == pid
    await ward.whole()
    assert not ward.pids & set(pids)


async def test_in_its_shutdown_hook_while_it_is_recycled(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward(ChildSpec(f"{VICTIMS}:slow_stop", (str(tmp_path),)))
    before = ward.pids
    ward.pool.recycle()
    ward.others()
    for pid in before:
        await wait_until((tmp_path / f"stopping-{pid}").exists)
        kill(pid)
    await ward.whole()
    assert not before & ward.pids
    assert {event.old_pid for event in ward.made.told(ChildReplaced)} == before
    assert ward.pool.stats().failures == 0
    (tmp_path / "free").touch()


@pytest.mark.full
async def test_in_its_shutdown_hook_while_the_pool_shrinks(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward(ChildSpec(f"{VICTIMS}:slow_stop", (str(tmp_path),)))
    ward.pool.scale(3)
    await ward.pool.wait_ready()
    ward.pool.scale(2)
    await wait_until(lambda: bool(list(tmp_path.glob("stopping-*"))))
    (stopping,) = tmp_path.glob("stopping-*")
    kill(int(stopping.name.removeprefix("stopping-")))
    ward.others()
    await ward.whole()
    (tmp_path / "free").touch()


@pytest.mark.full
async def test_in_its_shutdown_hook_while_the_pool_stops(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward(ChildSpec(f"{VICTIMS}:slow_stop", (str(tmp_path),)))
    pids = ward.pids
    stopping = asyncio.create_task(ward.pool.stop(60_000))
    for pid in pids:
        await wait_until((tmp_path / f"stopping-{pid}").exists)
        kill(pid)
    assert await asyncio.wait_for(stopping, 10) == 0  # none had to be killed by the pool
    assert inventory.descendants() == ward.foreign


@pytest.mark.full
async def test_while_its_call_is_being_cancelled(open_ward: OpenWard, tmp_path: Path) -> None:
    ward = await open_ward(cancel_grace_ms=30_000)
    mark = tmp_path / "mark"
    call = asyncio.create_task(ward.pool.call("swallow_async", (str(mark),)))
    pid = await begun(mark)
    call.cancel()
    await asyncio.sleep(0)
    kill(pid)
    ward.others()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 10)
    await ward.whole()
