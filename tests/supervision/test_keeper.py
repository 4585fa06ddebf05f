"""Renewal from boards: who is renewed when, outages, and what is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.supervision.fakes import Published, SteppingClock, fake_store, until
from tests.supervision.stress import stress
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.events import ServiceRestarted, StoreTrouble
from workfleet.model.jobs import Claim
from workfleet.ports.stores import Store
from workfleet.supervision.board import Board, BoardEntry
from workfleet.supervision.insist import insist
from workfleet.supervision.keeper import Keeper
from workfleet.supervision.keeper_thread import KeeperThread
from workfleet.supervision.service import ServiceGroup


class Kept:
    """A keeper with a lease of 30 s over one board, on a clock that only it moves."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.board = Board.create(slots=8, clock=self.clock)
        self.store, self.published = fake_store(), Published()
        self.lost: list[str] = []
        self.keeper = Keeper(
            lambda: [self.board],
            self.store.jobs,
            lease_ms=30_000,
            clock=self.clock,
            publish=self.published.append,
            on_lost=lambda board, entry: self.lost.append(entry.name),
            draw=lambda: 0.5,
        )

    async def run(self, seconds: float, *, at: dict[float, Callable[[], object]] | None = None) -> None:
        await self.clock.run_with(self.keeper, seconds, at)


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    yield made
    made.board.close()


async def test_only_what_is_older_than_a_third_is_renewed_and_all_of_it_in_one_call(kept: Kept) -> None:
    kept.board.put(Claim("old", "t", "q"))
    kept.board.put(Claim("older", "t", "q"), since_ms=995_000)
    await kept.run(31.5, at={4.5: lambda: kept.board.put(Claim("young", "t", "q"))})
    # The passes are ten seconds apart; "young" is 6.5 s old at the second, 16.5 s at the third.
    assert kept.store.jobs.renewals == [["old", "older"], ["old", "older", "young"], ["old", "older", "young"]]


async def test_short_jobs_cost_no_renewal(kept: Kept) -> None:
    for second in range(1, 60, 5):
        slot = kept.board.put(Claim(f"job-{second}", "t", "q"))
        await kept.run(5)
        kept.board.clear(slot)
    assert kept.store.jobs.renewals == []


async def test_an_outage_is_told_once_and_renewal_goes_on_when_it_ends(kept: Kept) -> None:
    kept.board.put(Claim("a", "t", "q"), since_ms=0)
    kept.store.jobs.down = 6
    await kept.run(15)
    assert kept.store.jobs.renewals == [["a"]]
    assert [event.what for event in kept.published.of(StoreTrouble)] == ["renewing leases"]
    # Three quarters of 0.25 s, doubled each time, and never more than three quarters of 5 s.
    assert kept.clock.slept[1:7] == [0.1875, 0.375, 0.75, 1.5, 3.0, 3.75]
    kept.store.jobs.down = 1
    await kept.run(15)
    # Renewed 10.5625 s after the start, so it is due again at 20.5625 s, and the look that finds it meets the outage.
    assert kept.store.jobs.renewals == [["a"]] * 2
    assert len(kept.published.of(StoreTrouble)) == 2


@pytest.mark.parametrize(("draw", "first_wait_s"), [(0.0, 0.125), (0.999, 0.249875)])
async def test_a_wait_is_never_near_zero(draw: float, first_wait_s: float) -> None:
    clock, answers = SteppingClock(), iter([StoreUnavailable("fake://", "down"), None])

    async def call() -> None:
        if (answer := next(answers)) is not None:
            raise answer

    await insist(call, "a test", timeout_ms=1_000, clock=clock, publish=Published().append, draw=lambda: draw)
    assert clock.slept == [pytest.approx(first_wait_s)]


async def test_a_lost_claim_is_told_once_and_not_renewed_again(kept: Kept) -> None:
    kept.board.put(Claim("mine", "t", "q"), since_ms=0)
    kept.board.put(Claim("theirs", "t", "q"), since_ms=0)
    kept.store.jobs.stale = {"theirs"}
    await kept.run(25)
    assert kept.lost == ["theirs"]
    assert kept.store.jobs.renewals == [["mine", "theirs"], ["mine"], ["mine"]]


async def test_a_claim_that_was_settled_meanwhile_is_not_lost(kept: Kept) -> None:
    slot = kept.board.put(Claim("a", "t", "q"), since_ms=0)

    async def renew(claims: list[Claim], lease_ms: int) -> list[bool]:
        kept.board.clear(slot)
        return [False]

    kept.store.jobs.renew = renew
    await kept.run(5)
    assert kept.lost == []


async def test_after_the_machine_slept_everything_is_renewed_at_once(kept: Kept) -> None:
    await kept.run(1)
    kept.board.put(Claim("a", "t", "q"))
    await kept.run(1)
    kept.clock.wall_ms += 25_000  # the monotonic clock stood still
    await kept.run(1)
    assert kept.store.jobs.renewals == [["a"]]


async def test_a_wall_clock_set_back_delays_no_renewal(kept: Kept) -> None:
    kept.board.put(Claim("a", "t", "q"))

    def set_back() -> None:
        kept.clock.wall_ms -= 86_400_000 * 365

    await kept.run(11.5, at={10.5: set_back})
    assert kept.store.jobs.renewals == [["a"]]


async def test_a_keeper_bears_the_stress_of_a_service() -> None:
    clock = SystemClock()
    board, store = Board.create(slots=8, clock=clock), fake_store()
    board.put(Claim("a", "t", "q"), since_ms=0)
    keeper = Keeper(lambda: [board], store.jobs, lease_ms=30, clock=clock, publish=Published().append)
    await stress(keeper)
    assert store.jobs.renewals
    board.close()


class Threaded:
    """A keeper thread with a lease of 300 ms."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.board = Board.create(slots=8, clock=self.clock)
        self.store, self.published = fake_store(), Published()
        self.lost: list[tuple[str, int]] = []
        self.opened_in: list[int] = []
        self.failures: list[Exception] = []
        self.service = KeeperThread(
            self._open, self.board, lease_ms=300, clock=self.clock, publish=self.published.append, on_lost=self._lost
        )

    async def _open(self) -> Store:
        self.opened_in.append(threading.get_ident())
        if self.failures:
            raise self.failures.pop()
        opened: Store = self.store
        return opened

    def _lost(self, board: Board, entry: BoardEntry) -> None:
        self.lost.append((entry.name, threading.get_ident()))


async def test_a_thread_renews_while_the_event_loop_is_blocked() -> None:
    threaded = Threaded()
    threaded.board.put(Claim("a", "t", "q"))
    serving = asyncio.create_task(threaded.service.serve())
    await until(lambda: threaded.opened_in)
    before = len(threaded.store.jobs.renewals)
    end = threaded.clock.monotonic() + 1.0
    while threaded.clock.monotonic() < end:
        pass  # user code that never awaits
    assert len(threaded.store.jobs.renewals) - before >= 3
    threaded.store.jobs.stale = {"a"}
    await until(lambda: threaded.lost)
    assert threaded.lost == [("a", threading.get_ident())]
    assert threaded.opened_in != [threading.get_ident()]
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert threaded.store.closed == 1
    assert "workfleet-keeper" not in [thread.name for thread in threading.enumerate()]
    threaded.board.close()


async def test_a_thread_waits_for_a_store_that_is_down_and_fails_for_what_it_does_not_know() -> None:
    threaded = Threaded()
    threaded.board.put(Claim("a", "t", "q"))
    threaded.failures = [RuntimeError("a bug"), StoreUnavailable("fake://", "down")]
    group = ServiceGroup("g", [threaded.service], clock=threaded.clock, publish=threaded.published.append)
    serving = asyncio.create_task(group.serve())
    await until(lambda: threaded.store.jobs.renewals)
    assert [event.error for event in threaded.published.of(StoreTrouble)] == ["store fake://: down"]
    assert [event.error for event in threaded.published.of(ServiceRestarted)] == ["RuntimeError: a bug"]
    assert await group.stop(2_000) == ()
    await serving
    threaded.board.close()


async def test_a_keeper_thread_bears_the_stress_of_a_service() -> None:
    threaded = Threaded()
    threaded.board.put(Claim("a", "t", "q"))
    await stress(threaded.service)
    assert len(threaded.opened_in) == threaded.store.closed > 0
    threaded.board.close()
