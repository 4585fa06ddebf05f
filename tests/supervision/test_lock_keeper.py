"""Renewal of locks from boards: when, through an outage, after the machine slept, and what their holder reads of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.supervision.fakes import Published, SteppingClock, fake_store, until
from tests.supervision.stress import stress
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.events import StoreTrouble
from workfleet.model.fleet import LockGrant
from workfleet.ports.stores import Store
from workfleet.supervision.board import Board
from workfleet.supervision.keeper_thread import KeeperThread
from workfleet.supervision.lock_keeper import LockKeeper, LocksElsewhere


class Kept:
    """A lock keeper over one board, on a clock that only it moves."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.board = Board.create(slots=8, clock=self.clock)
        self.store, self.published = fake_store(), Published()
        self.keeper = LockKeeper(
            lambda: [self.board], self.store.locks, clock=self.clock, publish=self.published.append
        )

    def take(self, name: str, *, ttl_ms: int) -> int:
        self.store.locks.owners[name] = "o"
        return self.board.put_lock(name, "o", ttl_ms=ttl_ms)

    def held_ms(self, slot: int) -> float | None:
        """Since when the holder may count on it, before now."""
        renewed_ms = self.board.renewed_ms(slot)
        return None if renewed_ms is None else self.clock.seconds * 1000 - renewed_ms

    async def run(self, seconds: float, *, at: dict[float, Callable[[], object]] | None = None) -> None:
        await self.clock.run_with(self.keeper, seconds, at)


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    yield made
    made.board.close()


async def test_a_lock_is_renewed_for_its_own_time_when_a_third_of_it_has_passed(kept: Kept) -> None:
    for name, ttl_ms in (("shortest", 1_000), ("short", 6_000), ("long", 60_000)):
        kept.take(name, ttl_ms=ttl_ms)
    await kept.run(20.5)
    renewals = kept.store.locks.renewals
    # A look comes each quarter of a second: the shortest is renewed at every second one, in two thirds of its time.
    assert [ttl for name, ttl in renewals if name == "shortest"] == [1_000] * 41
    assert [ttl for name, ttl in renewals if name == "short"] == [6_000] * 10
    assert [ttl for name, ttl in renewals if name == "long"] == [60_000]


async def test_its_holder_reads_when_it_was_renewed_and_that_it_is_lost(kept: Kept) -> None:
    kept_one, lost_one = kept.take("kept", ttl_ms=6_000), kept.take("lost", ttl_ms=6_000)
    assert (kept.held_ms(kept_one), kept.held_ms(lost_one)) == (0, 0)
    await kept.run(1.5)
    assert kept.held_ms(kept_one) == 1_500
    await kept.run(1)
    assert kept.held_ms(kept_one) == 500
    kept.store.locks.owners["lost"] = "somebody else"
    await kept.run(2)
    assert kept.held_ms(kept_one) == 500
    assert kept.board.renewed_ms(lost_one) == -1
    asked = kept.store.locks.renewals.count(("lost", 6_000))
    await kept.run(10)
    assert kept.store.locks.renewals.count(("lost", 6_000)) == asked
    # Whoever takes it again under another note has nothing to do with that.
    kept.board.clear(lost_one)
    assert kept.held_ms(kept.take("lost", ttl_ms=6_000)) == 0


async def test_what_was_renewed_for_a_note_that_is_gone_is_not_believed_of_the_next(kept: Kept) -> None:
    slot = kept.take("first", ttl_ms=6_000)

    async def renew(name: str, owner: str, ttl_ms: int) -> LockGrant | None:
        if name == "first":
            kept.board.clear(slot)
            assert kept.take("second", ttl_ms=6_000) == slot
            return None
        return LockGrant(name, owner, 1, 0)

    kept.store.locks.renew = renew
    await kept.run(2)
    assert kept.board.renewed_ms(slot) is None
    await kept.run(2)
    assert kept.held_ms(slot) == 0


async def test_an_outage_is_told_once_and_renewal_goes_on_at_the_next_look(kept: Kept) -> None:
    slot, down = kept.take("l", ttl_ms=6_000), True
    renew: Any = kept.store.locks.renew

    async def may_fail(*args: Any) -> Any:
        if down:
            raise StoreUnavailable("fake://", "down")
        return await renew(*args)

    kept.store.locks.renew = may_fail
    await kept.run(3)
    assert [(event.what, event.error) for event in kept.published.of(StoreTrouble)] == [
        ("renewing locks", "store fake://: down")
    ]
    assert kept.held_ms(slot) == 3_000
    down = False
    await kept.run(0.25)
    assert kept.held_ms(slot) == 0


async def test_one_without_an_answer_holds_up_no_other() -> None:
    clock, store, published = SystemClock(), fake_store(), Published()
    board = Board.create(slots=8, clock=clock)
    renew: Any = store.locks.renew

    async def hangs(name: str, owner: str, ttl_ms: int) -> Any:
        if name == "hangs":
            await asyncio.Event().wait()
        return await renew(name, owner, ttl_ms)

    store.locks.owners["l"] = "o"
    store.locks.renew = hangs
    for name in ("hangs", "l"):
        board.put_lock(name, "o", ttl_ms=1_000)
    keeper = LockKeeper(lambda: [board], store.locks, clock=clock, publish=published.append)
    keeping = asyncio.create_task(keeper.serve())
    await until(lambda: store.locks.renewals.count(("l", 1_000)) == 2)
    assert [event.error for event in published.of(StoreTrouble)] == ["no answer within 333 ms"]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    board.close()


async def test_after_the_machine_slept_a_lock_is_renewed_at_once(kept: Kept) -> None:
    await kept.run(1)
    kept.take("l", ttl_ms=60_000)
    await kept.run(1)
    kept.clock.wall_ms += 25_000  # the monotonic clock stood still
    await kept.run(0.25)
    assert kept.store.locks.renewals == [("l", 60_000)]
    kept.clock.wall_ms -= 86_400_000 * 365
    await kept.run(19)
    assert kept.store.locks.renewals == [("l", 60_000)]


async def test_a_lock_keeper_bears_the_stress_of_a_service() -> None:
    clock = SystemClock()
    board, store = Board.create(slots=8, clock=clock), fake_store()
    store.locks.owners["l"] = "o"
    board.put_lock("l", "o", ttl_ms=1)
    opened: list[Store] = []

    async def open_store() -> Store:
        opened.append(store)
        return opened[-1]

    elsewhere = LocksElsewhere(open_store, lambda: [board], timeout_ms=1_000, clock=clock, publish=Published().append)
    await stress(elsewhere)
    assert len(opened) == store.closed > 0
    board.close()


async def test_locks_of_a_dead_worker_are_freed_when_their_store_answers_and_nobody_waits_for_it() -> None:
    clock, store, published = SystemClock(), fake_store(), Published()
    board, up = Board.create(slots=8, clock=clock), asyncio.Event()
    store.locks.owners = {"early": "dead", "late": "dead", "other": "living"}
    for name in ("early", "late", "other"):
        board.put_lock(name, "dead", ttl_ms=60_000)
    early, late, other = board.entries()

    async def open_store() -> Store:
        if not up.is_set():
            raise StoreUnavailable("fake://", "down")
        opened: Store = store
        return opened

    elsewhere = LocksElsewhere(open_store, list, timeout_ms=1_000, clock=clock, publish=published.append)
    serving = asyncio.create_task(elsewhere.serve())
    began = clock.monotonic()
    await elsewhere.free([early])
    assert 0.9 < clock.monotonic() - began < 10
    assert "early" in store.locks.owners
    up.set()
    await until(lambda: "early" not in store.locks.owners)
    await elsewhere.free([late, other])
    assert store.locks.owners == {"other": "living"}
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    board.close()


async def test_a_thread_renews_where_the_locks_are() -> None:
    clock, jobs, locks = SystemClock(), fake_store(), fake_store()
    board = Board.create(slots=8, clock=clock)
    locks.locks.owners["l"] = "o"
    board.put_lock("l", "o", ttl_ms=300)

    async def open_jobs() -> Store:
        opened: Store = jobs
        return opened

    async def open_locks() -> Store:
        opened: Store = locks
        return opened

    service = KeeperThread(
        open_jobs,
        board,
        lease_ms=300,
        clock=clock,
        publish=Published().append,
        on_lost=lambda board, entry: None,
        open_locks=open_locks,
    )
    serving = asyncio.create_task(service.serve())
    await until(lambda: len(locks.locks.renewals) >= 2)
    assert jobs.locks.renewals == []
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert (jobs.closed, locks.closed) == (1, 1)
    board.close()
