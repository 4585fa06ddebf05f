"""Calls with a key: their template, the child that they go to, and where they wait for it."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tests.pools.place import Place
from tests.pools.support import kill, wait_until
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError, PayloadRejected, PoolBusy, PoolError
from workfleet.events import Event
from workfleet.model.declared import marked
from workfleet.pools.declare import process, public
from workfleet.pools.keys import MethodKeys
from workfleet.pools.marks import ProcessMark
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.process import Exit
from workfleet.pools.reading import merged
from workfleet.pools.registry import Pools, PoolSetup
from workfleet.pools.ring import Ring

DEAD = Exit(-9, "signal SIGKILL", "")


def keys_of(place: int, places: int, count: int = 5) -> list[str]:
    """Keys that live at a place."""
    ring = Ring(range(places))
    return [key for key in (f"k{number}" for number in range(1_000)) if ring.place_of(key) == place][:count]


async def test_calls_with_one_key_go_to_one_child_and_wait_for_it_alone() -> None:
    place = Place(3, strategy="consistent_hash")
    first, second, third = (keys_of(number, 3) for number in range(3))
    calls = [place.submit(key=key, alone=True) for key in (first[0], first[0], first[1], second[0], third[0])]
    assert place.lines() == [[1], [4], [5]]
    assert place.desk.queued == 2
    place.answer(1)
    assert place.lines() == [[1], [], [5]]  # child 1 is idle, and the calls for child 0 do not move there
    place.submit(key=second[3], alone=True)
    assert place.lines() == [[1], [6], [5]]
    for expected in ([2], [3], []):
        place.answer(0)
        assert place.lines()[0] == expected
    assert [call.future.done() for call in calls] == [True, True, True, True, False]


async def test_quick_calls_with_a_key_are_sent_ahead_to_their_child() -> None:
    place = Place(2, strategy="consistent_hash")
    key = keys_of(1, 2)[0]
    for _ in range(40):
        place.submit(key=key)
        place.answer(1)
    for _ in range(164):
        place.submit(key=key)
    assert [len(line) for line in place.lines()] == [0, 128]
    assert place.desk.queued == 36


async def test_a_quick_call_does_not_overtake_one_that_waits_for_the_same_child() -> None:
    place = Place(2, strategy="consistent_hash")
    key = keys_of(0, 2)[0]
    for _ in range(40):
        place.submit(key=key)
        place.answer(0)
    place.submit(key=key)
    waiting = place.submit(key=key, alone=True)
    place.submit(key=key)
    assert (place.lines()[0], place.desk.queued) == ([41], 2)
    place.answer(0)
    assert place.lines()[0] == [waiting.id]


async def test_calls_without_a_key_go_to_any_child_and_neither_kind_starves() -> None:
    place = Place(2, strategy="consistent_hash")
    zero, one = keys_of(0, 2)[0], keys_of(1, 2)[0]
    for key in (zero, one, None, zero, zero, None, one):  # calls 1 and 2 run, the others wait
        place.submit(key=key, alone=True)
    assert place.lines() == [[1], [2]]
    for which, expected in ((0, [[3], [2]]), (1, [[3], [6]]), (0, [[4], [6]]), (0, [[5], [6]]), (1, [[5], [7]])):
        place.answer(which)  # the freed child gets the oldest call that it may have
        assert place.lines() == expected
    assert place.desk.queued == 0


async def test_the_keys_of_a_child_that_died_wait_for_the_next_in_its_place() -> None:
    place = Place(2, strategy="consistent_hash")
    key, other = keys_of(0, 2)[0], keys_of(1, 2)[0]
    place.submit(key=key)
    place.members[0][1].last_begun = 1
    place.members[0][0].end(DEAD)
    place.submit(key=key)
    place.submit(key=other)
    assert place.lines()[1] == [3]
    assert place.desk.queued == 1
    place.members[0] = place.add(0)
    assert place.lines() == [[2], [3]]


async def test_what_a_dead_child_had_not_begun_comes_first_again_in_its_place() -> None:
    place = Place(2, strategy="consistent_hash")
    key = keys_of(0, 2)[0]
    for _ in range(3):
        place.submit(key=key, alone=True)
    place.members[0][0].end(DEAD)  # it had not begun call 1
    assert place.desk.queued == 3
    place.members[0] = place.add(0)
    assert place.lines() == [[1], []]
    place.answer(0)
    assert place.lines() == [[2], []]


async def test_a_place_that_is_given_up_leaves_its_keys_and_waiting_calls_to_the_others() -> None:
    place = Place(3, strategy="consistent_hash")
    ring, left = Ring(range(3)), Ring([0, 2])
    keys = keys_of(1, 3, 12)
    place.submit(key=keys[0], alone=True)
    for key in keys:
        place.submit(key=key, alone=True)
    assert place.desk.queued == 12
    place.desk.places([0, 2])
    assert {ring.place_of(key) for key in keys} == {1}
    homes = [left.place_of(key) for key in keys]
    firsts = [next(number for number, home in enumerate(homes) if home == wanted) for wanted in (0, 2)]
    assert place.lines() == [[firsts[0] + 2], [1], [firsts[1] + 2]]
    for which in (0, 2) * 12:
        if place.lines()[which]:
            place.answer(which)
    assert place.members[0][1].sent == [number + 2 for number, home in enumerate(homes) if home == 0]
    assert place.members[2][1].sent == [number + 2 for number, home in enumerate(homes) if home == 2]


async def test_a_new_place_takes_over_waiting_calls_of_its_keys() -> None:
    place = Place(1, strategy="consistent_hash")
    keys = keys_of(1, 2, 3)
    for key in [keys[0], *keys]:
        place.submit(key=key, alone=True)
    assert place.lines() == [[1]]
    place.desk.places([0, 1])
    place.members.append(place.add(1))
    assert place.lines() == [[1], [2]]


async def test_one_busy_key_can_fill_only_its_share_of_the_queue() -> None:
    place = Place(2, limit=10, strategy="consistent_hash")
    hot, other = keys_of(0, 2)[0], keys_of(1, 2)[0]
    for _ in range(6):
        place.submit(key=hot, alone=True)
    with pytest.raises(PoolBusy) as busy:
        place.submit(key=hot)
    assert busy.value.limit == 5
    for _ in range(6):
        place.submit(key=other, alone=True)
    with pytest.raises(PoolBusy):
        place.submit(key=other)
    assert place.desk.queued == 10


async def test_the_guess_of_a_busy_key_is_about_its_own_child() -> None:
    place = Place(4, limit=40, strategy="consistent_hash")
    hot = keys_of(0, 4)[0]
    for _ in range(2):
        place.submit(key=hot, alone=True)
        place.answer(0, micros=1_000_000)
    for _ in range(11):
        place.submit(key=hot, alone=True)
    with pytest.raises(PoolBusy) as busy:
        place.submit(key=hot)
    assert busy.value.retry_after_ms == 5_000  # half of 10 calls of a second, by one child


async def test_waiting_calls_with_keys_can_be_abandoned_and_failed() -> None:
    place = Place(1, strategy="consistent_hash")
    place.submit(key="a", alone=True)
    dropped, failed, plain = place.submit(key="a"), place.submit(key="a"), place.submit()
    assert place.desk.waiting_ids() == (2, 4)
    await place.desk.abandon(dropped)
    assert (place.desk.queued, place.desk.waiting_ids()) == (2, (3, 4))
    place.desk.close(lambda: PoolError("closed"))
    assert (str(failed.future.exception()), str(plain.future.exception())) == ("closed", "closed")
    assert (place.desk.queued, place.desk.unfinished) == (0, 1)
    place.answer(0)
    await asyncio.wait_for(place.desk.wait_until_empty(), 1)


@process("tenants", size=3, strategy="consistent_hash", hash_key="{tenant}")
class Tenants:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @public
    def note(self, tenant: str, *, what: str = "x") -> tuple[int, list[str]]:
        self.seen.append(tenant)
        return os.getpid(), sorted(set(self.seen))

    @public
    async def greet(self, what: int, tenant: str = "nobody") -> str:
        return tenant


def test_a_key_is_filled_from_the_arguments_however_they_are_given() -> None:
    keys = MethodKeys(Tenants, "tenants", "{tenant}")
    assert keys.of("note", ("a",), {}) == keys.of("note", (), {"tenant": "a"}) == "a"
    assert keys.of("greet", (1,), {}) == "nobody"
    assert keys.of("greet", (1, "b"), {}) == "b"
    assert keys.of("workfleet_handler", ("b",), {}) is None
    assert MethodKeys(Tenants, "tenants", "tenant").of("note", ("a",), {}) == "a"
    with pytest.raises(PayloadRejected, match=r"arguments of tenants\.note: .*'\{tenant\}'.*is empty"):
        keys.of("note", (None,), {})
    with pytest.raises(PayloadRejected, match="is a dict: name a field of it"):
        keys.of("note", ({},), {})
    assert MethodKeys(Tenants, "tenants", "{tenant.id}").of("note", ({"id": 7},), {}) == "7"


def test_a_method_without_the_parameter_of_the_key_is_an_error_that_names_it() -> None:
    @process("odd")
    class Odd:
        @public
        def fine(self, tenant: str) -> None: ...

        @public
        def lacks(self, customer: str) -> None: ...

        @public
        def lacks_too(self) -> None: ...

    with pytest.raises(ConfigError) as error:
        MethodKeys(Odd, "odd", "{tenant}")
    assert [problem.name.rpartition(".")[2] for problem in error.value.problems] == ["lacks", "lacks_too"]
    first = error.value.problems[0].message
    assert first == "hash_key of pool 'odd': {tenant} in the key '{tenant}' names no parameter; there are customer"


def configure(worker: type[Any], options: Any) -> PoolSetup:
    mark = marked(worker, ProcessMark)
    assert mark is not None
    written: Any = {**mark.options, **options}
    return PoolSetup(ChildSpec.of(worker), merged(PoolOptions(name="", size=1), mark.name, written, processes=1))


async def test_real_children_keep_their_keys_also_over_a_death() -> None:
    events: list[Event] = []
    pools = Pools(configure, clock=SystemClock(), publish=events.append)
    try:
        tenants = await pools.pool(Tenants)
        names = [f"tenant-{number}" for number in range(30)]
        pids = {name: (await tenants.note(name))[0] for name in names}
        ring = Ring(range(3))
        await pools.get(Tenants).wait_ready()
        by_place = {child.slot: child.pid for child in pools.stats()["tenants"].children}
        assert pids == {name: by_place[ring.place_of(name) or 0] for name in names}
        again = {name: (await tenants.note(name))[0] for name in names}
        assert again == pids
        victim = pids[names[0]]
        kill(victim)
        after = {name: await tenants.note(name) for name in names}
        new = after[names[0]][0]
        assert new not in pids.values()
        assert {name: pid for name, (pid, _) in after.items()} == {
            name: new if pid == victim else pid for name, pid in pids.items()
        }
        await pools.scale(Tenants, 4)
        await wait_until(lambda: pools.stats()["tenants"].ready == 4)
        moved = [name for name in names if (await tenants.note(name))[0] != after[name][0]]
        assert moved == [name for name in names if Ring(range(4)).place_of(name) == 3] != []
    finally:
        await pools.aclose(5_000)


async def test_a_pool_with_keys_needs_a_class_and_its_parameters() -> None:
    @process("lacking", strategy="consistent_hash", hash_key="{tenant}")
    class Lacking:
        @public
        def work(self, customer: str) -> None: ...

    pools = Pools(
        lambda worker, options: PoolSetup(ChildSpec("x:y"), OPTIONS), clock=SystemClock(), publish=lambda event: None
    )
    with pytest.raises(ConfigError, match=r"Lacking\.work: hash_key of pool 'lacking'"):
        pools.declare(Lacking)
    assert pools.list() == ()
    with pytest.raises(
        ConfigError, match="pool lacking: strategy: consistent_hash is for the pool of a @process class"
    ):
        pools.add(ChildSpec("x:y"), OPTIONS)


OPTIONS = PoolOptions(name="lacking", size=1, strategy="consistent_hash", hash_key="{tenant}")
