"""Which children are replaced with one that died, what becomes of their calls, and what is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.supervised import Worker
from tests.pools.support import Made, kill, wait_until
from workfleet.errors import CallTimeout, ChildDied, PoolFailed
from workfleet.events import ChildDied as ChildDiedEvent
from workfleet.events import ChildReplaced
from workfleet.model.policy import Backoff
from workfleet.pools import exits
from workfleet.pools.options import ChildSpec, RestartPolicy

WORKER = ChildSpec.of(Worker)
JOURNALLED = "tests.pools.supervised:journalled"
AT_ONCE = RestartPolicy(delay_ms=0)


def places(made: Made) -> dict[int, int]:
    """The children that are ready, by place."""
    return {child.slot: child.pid for child in made.pool.stats().children if child.state in ("ready", "busy")}


async def all_other(made: Made, before: dict[int, int], slots: set[int]) -> dict[int, int]:
    """Waits until there is another child in each of these places."""

    def renewed() -> bool:
        now = places(made)
        return now.keys() == before.keys() and all(now[slot] != before[slot] for slot in slots)

    await wait_until(renewed, 20.0)
    return places(made)


@pytest.mark.parametrize(
    ("strategy", "replaced"), [("one_for_one", {1}), ("rest_for_one", {1, 2}), ("one_for_all", {0, 1, 2})]
)
async def test_a_death_replaces_the_children_of_the_strategy_and_counts_once(
    make_pool: MakePool, tmp_path: Path, strategy: str, replaced: set[int]
) -> None:
    journal = tmp_path / "journal"
    spec = ChildSpec(JOURNALLED, (str(journal),))
    made = make_pool(spec, size=3, supervision=strategy, restart=AT_ONCE)
    await made.pool.wait_ready()
    before = places(made)
    kill(before[1])
    now = await all_other(made, before, replaced)
    assert {slot for slot in before if now[slot] != before[slot]} == replaced
    siblings = replaced - {1}
    await wait_until(lambda: len(made.told(ChildReplaced)) == len(replaced))
    # They went gracefully: their hooks ran, and only the one that was killed is told and counted as dead.
    assert sorted(map(int, journal.read_text().split() if journal.exists() else [])) == sorted(
        before[slot] for slot in siblings
    )
    assert [event.pid for event in made.told(ChildDiedEvent)] == [before[1]]
    assert made.pool.stats().restarts == 1
    assert {event.why for event in made.told(ChildReplaced) if event.old_pid != before[1]} == (
        {f"the child of place 1 died ({strategy})"} if siblings else set()
    )


async def test_a_sibling_that_is_replaced_ends_its_call_first(make_pool: MakePool, tmp_path: Path) -> None:
    made = make_pool(WORKER, size=2, supervision="one_for_all", restart=AT_ONCE)
    await made.pool.wait_ready()
    before = places(made)
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    running = asyncio.create_task(made.pool.call("wait_for", (str(gate), str(mark))))
    await wait_until(lambda: mark.exists() and bool(mark.read_text()))
    busy = int(mark.read_text())
    with pytest.raises(ChildDied):
        await made.pool.call("crash")
    await wait_until(lambda: any(child.pid not in before.values() for child in made.pool.stats().children))
    assert [child.state for child in made.pool.stats().children if child.pid == busy] == ["draining"]
    # Meanwhile it is given nothing more: a call goes to the new child.
    assert await made.pool.call("pid") not in before.values()
    assert not running.done()
    gate.touch()
    assert await running == busy
    await all_other(made, before, {0, 1})
    assert made.pool.stats().failures == 1


@pytest.mark.parametrize("abandoned", [False, True])
async def test_calls_sent_ahead_to_a_sibling_that_is_replaced_are_given_to_others(
    make_pool: MakePool, tmp_path: Path, abandoned: bool
) -> None:
    made = make_pool(WORKER, size=2, supervision="one_for_all", restart=AT_ONCE)
    await made.pool.wait_ready()
    before = places(made)
    await asyncio.gather(*(made.pool.call("quick") for _ in range(200)))  # it is known to be quick
    gate, mark = tmp_path / "gate", tmp_path / "mark"
    running = asyncio.create_task(made.pool.call("quick", (str(gate), str(mark))))
    await wait_until(lambda: mark.exists() and bool(mark.read_text()))
    busy = int(mark.read_text())
    ahead = [asyncio.create_task(made.pool.call("quick")) for _ in range(40)]
    await asyncio.sleep(0.2)  # the other child has had its share
    waiting = [call for call in ahead if not call.done()]
    assert waiting
    kill(next(pid for pid in before.values() if pid != busy))
    await wait_until(lambda: len(made.told(ChildDiedEvent)) == 1)
    if abandoned:
        waiting[0].cancel()
    gate.touch()
    assert await running == busy
    served = await asyncio.gather(*waiting, return_exceptions=True)
    if abandoned:
        assert isinstance(served.pop(0), asyncio.CancelledError)
    assert all(isinstance(pid, int) and pid not in before.values() for pid in served)
    await all_other(made, before, {0, 1})
    stats = made.pool.stats()
    assert (stats.busy, stats.queued, stats.restarts) == (0, 0, 1)


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
async def test_a_child_killed_for_its_call_takes_the_others_along(make_pool: MakePool, strategy: str) -> None:
    made = make_pool(WORKER, size=1, supervision=strategy, restart=AT_ONCE)
    await made.pool.wait_ready()
    made.pool.scale(2)
    await made.pool.wait_ready()
    before = places(made)
    with pytest.raises(CallTimeout):
        await made.pool.call("rest", (60.0,), timeout_ms=200)
    await all_other(made, before, {0, 1})  # the first idle child is that of place 0
    assert made.pool.stats().restarts == 0


async def test_recycling_and_scaling_down_take_no_others_along(make_pool: MakePool) -> None:
    made = make_pool(WORKER, size=3, supervision="one_for_all", max_calls=2, restart=AT_ONCE)
    await made.pool.wait_ready()
    before = places(made)
    pids = [await made.pool.call("pid") for _ in range(2)]
    assert len(set(pids)) == 1
    await wait_until(lambda: made.pool.stats().recycled == 1)
    made.pool.scale(2)
    await wait_until(lambda: len(made.pool.stats().pids) == 2)
    assert len(set(places(made).values()) & set(before.values())) >= 1
    assert made.told(ChildDiedEvent) == []
    assert len(made.told(ChildReplaced)) == 1


async def test_a_crash_loop_of_one_for_all_counts_each_round_once(make_pool: MakePool, tmp_path: Path) -> None:
    quick = RestartPolicy(max_restarts=2, delay_ms=0, backoff=Backoff("fixed", 10, 10, "none"))
    spec = ChildSpec("tests.pools.workers:crash_until", (str(tmp_path / "tries"), 1_000))
    made = make_pool(spec, size=4, supervision="one_for_all", restart=quick)
    with pytest.raises(PoolFailed, match="3 children died"):
        await made.pool.wait_ready()
    assert made.pool.stats().restarts == 2


async def test_what_is_told_of_a_place(make_pool: MakePool) -> None:
    made = make_pool(WORKER, size=2, restart=AT_ONCE)
    await made.pool.wait_ready()
    before = places(made)
    for child in made.pool.stats().children:
        assert (child.restarts, child.last_exit, child.calls, child.method) == (0, None, 0, None)
        assert child.started_ms > 1_600_000_000_000
        assert child.age_ms >= 0
    kill(before[1])
    now = await all_other(made, before, {1})
    first, second = made.pool.stats().children
    assert (first.slot, first.pid, first.restarts, first.last_exit) == (0, before[0], 0, None)
    assert (second.slot, second.pid, second.restarts) == (1, now[1], 1)
    assert second.last_exit is not None
    assert (second.last_exit.pid, second.last_exit.how, second.last_exit.why) == (
        before[1],
        "signal SIGKILL",
        "signal SIGKILL",
    )
    assert second.last_exit.at_ms >= first.started_ms


async def test_the_last_words_tell_how_much_memory_there_was(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else nothing is said of a child that held less than the tests' own process did at some time.
    monkeypatch.setattr(exits, "own_peak_bytes", lambda: 0)
    made = make_pool(WORKER, restart=AT_ONCE)
    with pytest.raises(ChildDied, match=r"exit code 3, it held at most \d+ MB") as caught:
        await made.pool.call("crash", (400,))
    (died,) = made.told(ChildDiedEvent)
    assert caught.value.peak_bytes is not None
    assert caught.value.peak_bytes > 400_000_000
    assert died.peak_bytes == caught.value.peak_bytes
