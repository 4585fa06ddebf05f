"""Children are replaced by their calls, age and memory, or on demand: a warm one first, and no call is lost."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.pools.conftest import MakePool
from tests.pools.supervised import Worker
from tests.pools.support import begun, kill, runs, wait_until
from workfleet.events import ChildDied, ChildReplaced, ReplacementFailed
from workfleet.model.policy import Backoff
from workfleet.pools.options import ChildSpec, RestartPolicy

WORKER = ChildSpec.of(Worker)
UNLESS = "tests.pools.supervised:unless"
QUICK = RestartPolicy(delay_ms=0, backoff=Backoff("fixed", 50, 50, "none"))


@pytest.mark.parametrize(
    ("max_calls", "calls"),
    [
        (1, 24),
        (3, 48),
        pytest.param(1, 160, marks=pytest.mark.full),
        pytest.param(3, 400, marks=pytest.mark.full),
    ],
)
async def test_a_child_has_its_calls_and_not_one_more(make_pool: MakePool, max_calls: int, calls: int) -> None:
    made = make_pool(WORKER, size=2, max_calls=max_calls)
    await made.pool.wait_ready()
    own = psutil.Process()
    found = await asyncio.gather(*(made.pool.call("count") for _ in range(8)))
    gc.collect()
    await wait_until(lambda: len(made.pool.stats().pids) == 2)
    descriptors, tasks = own.num_fds(), len(asyncio.all_tasks())
    for _ in range(calls // 8 - 1):
        found += await asyncio.gather(*(made.pool.call("count") for _ in range(8)))
    per_child = Counter(pid for pid, _ in found)
    assert len(found) == calls
    assert made.told(ReplacementFailed) == []
    assert max(per_child.values()) == max_calls
    assert max(count for _, count in found) == max_calls
    assert len(per_child) >= calls // max_calls
    stats = made.pool.stats()
    assert (stats.calls, stats.failures, stats.restarts) == (calls, 0, 0)
    assert stats.recycled >= calls // max_calls - 2
    assert made.told(ChildDied) == []
    assert {event.why for event in made.told(ChildReplaced)} == {f"it has had its calls, {max_calls} at most"}
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["ready", "ready"], 30.0)
    await wait_until(lambda: (gc.collect(), own.num_fds())[1] == descriptors)
    assert len(asyncio.all_tasks()) == tasks
    assert [child for child in own.children() if child.status() == psutil.STATUS_ZOMBIE] == []


async def test_a_replacement_is_ready_before_the_last_calls_are_over(make_pool: MakePool) -> None:
    made = make_pool(WORKER, max_calls=100)
    await made.pool.wait_ready()
    pids = Counter([await made.pool.call("pid") for _ in range(90)])
    assert len(pids) == 1
    await wait_until(lambda: made.pool.stats().recycled == 1)  # it does not wait for the other ten
    assert await made.pool.call("pid") not in pids


async def test_recycling_all_never_leaves_fewer_than_the_size_and_starts_one_at_a_time(make_pool: MakePool) -> None:
    made = make_pool(WORKER, size=3)
    await made.pool.wait_ready()
    before = set(made.pool.stats().pids)
    made.pool.recycle()
    most, fewest = 0, 3

    def done() -> bool:
        nonlocal most, fewest
        children = made.pool.stats().children
        most = max(most, sum(1 for child in children if child.state in ("starting", "spare")))
        fewest = min(fewest, made.pool.stats().ready)
        return not before & {child.pid for child in children}

    await wait_until(done, 30.0)
    assert (most, fewest) == (1, 3)
    stats = made.pool.stats()
    assert (stats.recycled, stats.restarts, stats.ready, len(stats.pids)) == (3, 0, 3, 3)
    assert {event.why for event in made.told(ChildReplaced)} == {"recycled"}
    assert {event.old_pid for event in made.told(ChildReplaced)} == before
    assert made.told(ChildDied) == []
    assert {child.last_exit.pid for child in stats.children if child.last_exit is not None} == before


async def test_children_that_have_no_call_left_are_replaced_at_the_same_time(make_pool: MakePool) -> None:
    made = make_pool(WORKER, size=4, max_calls=1)
    await made.pool.wait_ready()
    before = set(made.pool.stats().pids)
    await asyncio.gather(*(made.pool.call("count") for _ in range(4)))
    await wait_until(lambda: [child.state for child in made.pool.stats().children].count("starting") >= 2)
    await wait_until(lambda: not before & set(made.pool.stats().pids), 30.0)
    assert (made.pool.stats().recycled, made.pool.stats().ready) == (4, 4)


async def test_who_waits_for_its_replacement_is_no_child_that_is_ready_and_a_spare_has_no_place(
    make_pool: MakePool, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    made = make_pool(ChildSpec("tests.pools.supervised:once_gone", (str(file),)), max_calls=1)
    await made.pool.wait_ready()
    file.touch()
    await made.pool.call("count")
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["spent", "starting"])
    stats = made.pool.stats()
    assert (stats.state, stats.ready, stats.size) == ("running", 0, 1)
    assert [child.slot for child in stats.children] == [0, None]
    file.unlink()
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["ready"])
    (child,) = made.pool.stats().children
    assert (child.slot, made.pool.stats().ready) == (0, 1)


async def test_recycling_under_load_loses_no_call(make_pool: MakePool) -> None:
    made = make_pool(WORKER, size=2)
    await made.pool.wait_ready()
    before = set(made.pool.stats().pids)
    served: list[int] = []
    stop = False

    async def caller() -> None:
        while not stop:
            served.append(await made.pool.call("pid"))

    callers = [asyncio.create_task(caller()) for _ in range(20)]
    await wait_until(lambda: len(served) > 200)
    made.pool.recycle()
    await wait_until(lambda: not before & set(made.pool.stats().pids), 30.0)
    stop = True
    await asyncio.gather(*callers)
    stats = made.pool.stats()
    assert (stats.calls, stats.failures) == (len(served), 0)
    assert set(served) > before


async def test_a_long_call_does_not_hold_up_the_recycling_of_others(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, size=2)
    await made.pool.wait_ready()
    before = set(made.pool.stats().pids)
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    running = asyncio.create_task(made.pool.call("wait_for", (str(gate), str(mark))))
    await wait_until(lambda: mark.exists() and bool(mark.read_text()))
    busy = int(mark.read_text())
    made.pool.recycle()
    await wait_until(lambda: made.pool.stats().recycled == 1)
    await wait_until(lambda: [child.state for child in made.pool.stats().children].count("spare") == 1)
    assert made.pool.stats().ready == 2  # the busy one is at work still, another is ready to follow it
    assert not running.done()
    gate.touch()
    assert await running == busy
    await wait_until(lambda: not before & set(made.pool.stats().pids))
    assert made.pool.stats().recycled == 2


async def test_children_are_replaced_at_their_age_which_is_spread(make_pool: MakePool) -> None:
    made = make_pool(WORKER, size=2, max_age_ms=3_000)
    await made.pool.wait_ready()
    before = {child.pid: child.started_ms for child in made.pool.stats().children}
    await wait_until(lambda: len(made.told(ChildReplaced)) >= 2, 30.0)
    replaced = made.told(ChildReplaced)[:2]
    assert {event.old_pid for event in replaced} == before.keys()
    assert all(event.why.startswith("it is ") and event.why.endswith(" s old") for event in replaced)
    assert made.told(ChildDied) == []
    # The tests' pools draw 1.0: all of the tenth that is drawn.
    exits = [child.last_exit for child in made.pool.stats().children if child.last_exit is not None]
    for exit_ in exits:
        if exit_.pid in before:
            assert exit_.at_ms - before[exit_.pid] >= 2_700


async def test_without_a_replacement_the_old_one_works_on_and_it_is_tried_again(
    make_pool: MakePool, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    made = make_pool(ChildSpec(UNLESS, (str(broken),)), max_calls=2, restart=QUICK)
    await made.pool.wait_ready()
    broken.touch()
    served = [await made.pool.call("count") for _ in range(6)]
    assert len({pid for pid, _ in served}) == 1  # beyond its number, because there is no other
    assert [count for _, count in served] == [1, 2, 3, 4, 5, 6]
    failed = made.told(ReplacementFailed)[0]
    assert (failed.pid, failed.slot, failed.retry_ms) == (served[0][0], 0, 50)
    assert failed.why.startswith("could not be built: RuntimeError('not now')")
    stats = made.pool.stats()
    assert (stats.state, stats.ready, stats.recycled, stats.restarts) == ("running", 1, 0, 0)
    broken.unlink()
    await wait_until(lambda: made.pool.stats().recycled == 1)
    assert (await made.pool.call("count"))[0] != served[0][0]


async def test_stopping_and_scaling_down_leave_no_spare(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, size=2)
    await made.pool.wait_ready()
    gate = tmp_path / "gate"
    running = [asyncio.create_task(made.pool.call("wait_for", (str(gate), str(tmp_path / str(n))))) for n in range(2)]
    await wait_until(lambda: all((tmp_path / str(n)).exists() for n in range(2)))
    made.pool.recycle()
    await wait_until(lambda: any(child.state == "spare" for child in made.pool.stats().children))
    spare = next(child.pid for child in made.pool.stats().children if child.state == "spare")
    made.pool.scale(1)
    gate.touch()
    await asyncio.gather(*running)
    await wait_until(lambda: len(made.pool.stats().pids) == 1, 20.0)
    made.pool.recycle()
    await wait_until(lambda: len(made.pool.stats().pids) == 2)
    pids = {spare, *made.pool.stats().pids}
    assert await made.pool.stop(5_000) == 0
    assert not any(runs(pid) for pid in pids)
    assert made.pool.stats().pids == ()


async def test_a_spare_that_nobody_needs_any_more_goes(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, restart=QUICK)
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    running = asyncio.create_task(made.pool.call("wait_for", (str(gate), str(mark))))
    busy = await begun(mark)
    made.pool.recycle()
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["busy", "spare"], 20.0)
    kill(busy)  # its place is filled as after any death
    await asyncio.gather(running, return_exceptions=True)
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["ready"], 20.0)
    assert (made.pool.stats().restarts, made.pool.stats().recycled) == (1, 0)
    assert [event.pid for event in made.told(ChildDied)] == [busy]


async def test_stopping_does_not_wait_for_a_replacement_that_starts(make_pool: MakePool, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    made = make_pool(ChildSpec("tests.pools.supervised:slowly", (60.0, str(slow))))
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    running = asyncio.create_task(made.pool.call("wait_for", (str(gate), str(mark))))
    busy = await begun(mark)
    slow.touch()
    made.pool.recycle()
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["busy", "starting"], 20.0)
    (starting,) = set(made.pool.stats().pids) - {busy}
    stopping = asyncio.create_task(made.pool.stop(30_000))
    await wait_until(lambda: not runs(starting))
    assert runs(busy)
    gate.touch()
    assert await running == busy
    assert await asyncio.wait_for(stopping, 15.0) == 0


async def test_a_child_that_dies_while_its_replacement_starts_is_replaced_as_any_other(
    make_pool: MakePool, tmp_path: Path
) -> None:
    made = make_pool(WORKER, restart=QUICK)
    await made.pool.wait_ready()
    made.pool.recycle()
    await asyncio.gather(made.pool.call("crash"), return_exceptions=True)
    await wait_until(lambda: [child.state for child in made.pool.stats().children] == ["ready"], 20.0)
    assert await made.pool.call("count")
    assert made.pool.stats().restarts + made.pool.stats().recycled >= 1
