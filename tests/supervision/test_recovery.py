"""What becomes of the jobs of workers that are gone: taken over by whoever saw it, or by the reaper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.supervision.fakes import Published, SteppingClock, fake_store
from tests.supervision.stress import stress
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.events import JobRecovered, StoreTrouble
from workfleet.model.fleet import ProcessIdentity, WorkerRecord
from workfleet.model.jobs import JobState
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store
from workfleet.queues.reaper import Reaper
from workfleet.queues.recovery import recover


class Yard:
    """A store with jobs, a reaper called `me`, and a list of the processes that live."""

    def __init__(self, locks: Callable[[], Awaitable[Store]] | None = None) -> None:
        self.clock, self.store, self.published = SteppingClock(), fake_store(), Published()
        self.alive: set[int] = {1}
        self.steady = True
        self.register("me", pid=1)
        self.reaper = Reaper(
            self.store,
            worker="me",
            is_alive=lambda identity: identity.pid in self.alive,
            lease_ms=30_000,
            poll_ms=10_000,
            max_crashes=3,
            clock=self.clock,
            publish=self.published.append,
            steady=lambda: self.steady,
            locks=locks,
        )

    def register(self, worker: str, *, pid: int, seen_ms: int = 90_000_000) -> None:
        identity = ProcessIdentity("host", "boot", pid, "1")
        self.store.fleet.records[worker] = WorkerRecord(id=worker, identity=identity, seen_ms=seen_ms)

    async def recover(self, *workers: str, **options: Any) -> int:
        request = TakeOver("supervisor", "token", 30_000, limit=options.pop("limit", 100), workers=workers)
        return await recover(
            self.store.jobs,
            request,
            options.pop("how", "worker {worker} was killed by SIGKILL"),
            max_crashes=3,
            clock=self.clock,
            publish=self.published.append,
            **options,
        )

    def states(self) -> dict[str, tuple[str, int]]:
        return {record.id: (record.state.value, record.crashes) for record in self.store.jobs.records.values()}


@pytest.fixture
def yard() -> Yard:
    return Yard()


async def test_a_crash_is_counted_and_the_third_fails_the_job(yard: Yard) -> None:
    yard.store.jobs.add("first", worker="w1")
    yard.store.jobs.add("third", worker="w3", crashes=2)
    yard.store.jobs.add("other", worker="w2")
    assert [await yard.recover(worker) for worker in ("w1", "w3")] == [1, 1]
    assert yard.states() == {"first": ("waiting", 1), "third": ("failed", 3), "other": ("active", 0)}
    failure = yard.store.jobs.records["third"].failure
    assert (failure.code, failure.message) == ("crashed", "worker w3 was killed by SIGKILL")
    told = [(event.id, event.worker, event.how, event.state) for event in yard.published.of(JobRecovered)]
    assert told == [
        ("first", "w1", "worker w1 was killed by SIGKILL", "waiting"),
        ("third", "w3", "worker w3 was killed by SIGKILL", "failed"),
    ]


async def test_in_company_nobody_knows_who_did_it_so_the_suspects_are_tried_apart(yard: Yard) -> None:
    yard.store.jobs.add("poison", worker="w1", crashes=2)
    yard.store.jobs.add("innocent", worker="w1", crashes=2)
    assert await yard.recover("w1") == 2
    assert yard.states() == {"poison": ("delayed", 2), "innocent": ("delayed", 2)}
    outcomes = [settlement.outcome for settlement in yard.store.jobs.settlements]
    assert [(outcome.code, outcome.suspicions) for outcome in outcomes] == [("crashed", 1), ("crashed", 1)]
    assert all(0 <= outcome.delay_ms <= 5_000 for outcome in outcomes)


async def test_what_is_given_back_counts_as_nothing(yard: Yard) -> None:
    yard.store.jobs.add("a", worker="w1", crashes=2)
    assert await yard.recover("w1", given_back=True) == 1
    assert yard.states() == {"a": ("waiting", 2)}
    assert yard.store.jobs.settlements[0].outcome.attempt is None


async def test_more_than_one_batch_is_taken_each_under_its_own_token(yard: Yard) -> None:
    for number in range(7):
        yard.store.jobs.add(f"job-{number}", worker="w1")
    assert await yard.recover("w1", limit=3) == 7
    tokens = [settlement.claim.token for settlement in yard.store.jobs.settlements]
    assert [tokens.count(token) for token in dict.fromkeys(tokens)] == [3, 3, 1]


async def test_a_job_that_somebody_else_took_meanwhile_is_theirs(yard: Yard) -> None:
    yard.store.jobs.add("a", worker="w1")
    settle = yard.store.jobs.settle

    async def stolen(settlements: Any) -> Any:
        yard.store.jobs.records["a"].token = "another's"
        return await settle(settlements)

    yard.store.jobs.settle = stolen
    assert await yard.recover("w1") == 0
    assert yard.published == []


async def test_burying_at_the_start_takes_over_at_once_what_dead_processes_held(yard: Yard) -> None:
    yard.register("dead", pid=2)
    yard.register("living", pid=3)
    yard.alive.add(3)
    yard.store.jobs.add("a", worker="dead")
    yard.store.jobs.add("b", worker="living")
    yard.store.locks.owners = {"l1": "dead:token", "l2": "living:token", "l3": "dead-too:token"}
    assert await yard.reaper.bury() == 1
    assert yard.states() == {"a": ("waiting", 1), "b": ("active", 0)}
    assert yard.published.of(JobRecovered)[0].how == "the process of worker dead is gone"
    assert set(yard.store.fleet.records) == {"me", "living"}
    assert yard.store.locks.owners == {"l2": "living:token", "l3": "dead-too:token"}


async def test_locks_are_free_before_the_jobs_run_again(yard: Yard) -> None:
    """Or such a job would find its own lock still taken, and be skipped."""
    yard.register("dead", pid=2)
    yard.store.jobs.add("a", worker="dead")
    yard.store.locks.owners = {"l1": "dead:token"}
    released: list[tuple[str, int]] = []
    release = yard.store.locks.release

    async def noted(name: str, owner: str) -> Any:
        released.append(yard.states()["a"])
        return await release(name, owner)

    yard.store.locks.release = noted
    await yard.reaper.bury()
    assert released == [("active", 0)]
    assert yard.states() == {"a": ("waiting", 1)}


@pytest.mark.parametrize("up", [True, False])
async def test_locks_in_a_store_of_their_own_are_freed_there_and_hold_up_no_job(*, up: bool) -> None:
    elsewhere = fake_store()

    async def open_locks() -> Store:
        if not up:
            raise StoreUnavailable("redis://", "down")
        opened: Store = elsewhere
        return opened

    yard = Yard(open_locks)
    yard.register("dead", pid=2)
    yard.store.jobs.add("a", worker="dead")
    yard.store.locks.owners = {"l1": "dead:token"}
    elsewhere.locks.owners = {"l2": "dead:token"}
    assert await yard.reaper.bury() == 1
    assert yard.states() == {"a": ("waiting", 1)}
    assert set(yard.store.fleet.records) == {"me"}
    assert yard.store.locks.owners == {"l1": "dead:token"}
    assert elsewhere.locks.owners == ({} if up else {"l2": "dead:token"})


async def test_later_a_process_must_be_gone_for_two_polls(yard: Yard) -> None:
    """Its supervisor, if it has one, knows how it died and comes first."""
    yard.register("dead", pid=2)
    yard.store.jobs.add("a", worker="dead")
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("active", 0)}
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("waiting", 1)}
    assert set(yard.store.fleet.records) == {"me"}


async def test_what_was_taken_over_waits_for_no_second_lease_when_the_store_fails_then(yard: Yard) -> None:
    """It is settled once the store answers again, and the trouble is told once for each call."""
    yard.store.jobs.add("a", worker="w")
    take_over = yard.store.jobs.take_over

    async def then_down(request: TakeOver) -> Any:
        records = await take_over(request)
        yard.store.jobs.down = 2
        return records

    yard.store.jobs.take_over = then_down
    assert await yard.recover("w") == 1
    assert yard.states() == {"a": ("waiting", 1)}
    assert [event.what for event in yard.published.of(StoreTrouble)] == ["taking over jobs of dead workers"]


async def test_a_question_for_expired_leases_is_asked_again_under_its_token(yard: Yard) -> None:
    """So that a reply that was lost is found, and the jobs in it wait for no second lease."""
    asked: list[tuple[str, bool]] = []
    take_over = yard.store.jobs.take_over

    async def lost(request: TakeOver) -> Any:
        records = await take_over(request)
        asked.append((request.token, bool(records)))
        if len(asked) == 1:
            raise StoreUnavailable("fake://", "the reply was lost")
        return records

    yard.store.jobs.take_over = lost
    yard.store.jobs.add("a", worker="far away")
    yard.store.jobs.expired.add("a")
    await yard.clock.run(yard.reaper, 35)  # the poll after an outage asks nothing
    yard.store.jobs.add("b", worker="far away")
    yard.store.jobs.expired.add("b")
    await yard.clock.run(yard.reaper, 35)
    tokens = [token for token, _ in asked]
    assert len(tokens) == 3
    assert tokens[0] == tokens[1] != tokens[2]


async def test_expired_leases_are_taken_over_at_every_poll(yard: Yard) -> None:
    yard.store.jobs.add("a", worker="far away")
    yard.store.jobs.expired.add("a")
    await yard.clock.run(yard.reaper, 9)
    assert yard.states() == {"a": ("active", 0)}
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("waiting", 1)}
    assert yard.published.of(JobRecovered)[0].how == "lease expired on worker far away"


async def test_after_an_outage_keepers_have_a_poll_to_renew_before_leases_are_judged(yard: Yard) -> None:
    yard.store.jobs.add("a", worker="w")
    yard.store.jobs.expired.add("a")
    yard.store.jobs.down = 1
    await yard.clock.run(yard.reaper, 10)
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("active", 0)}
    assert len(yard.published.of(StoreTrouble)) == 1
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("waiting", 1)}


async def test_while_the_store_takes_no_writes_no_lease_is_judged(yard: Yard) -> None:
    """Reads go on while somebody holds the store's lock, so nothing fails here; but keepers cannot renew."""
    yard.store.jobs.add("a", worker="w")
    yard.store.jobs.expired.add("a")
    yard.steady = False
    await yard.clock.run(yard.reaper, 20)
    assert yard.states() == {"a": ("active", 0)}
    yard.steady = True
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("waiting", 1)}


async def test_after_the_machine_slept_keepers_have_a_poll_too(yard: Yard) -> None:
    yard.store.jobs.add("a", worker="me")
    yard.store.jobs.expired.add("a")

    def sleep_at_lunch() -> None:
        yard.clock.wall_ms += 3_600_000
        yard.clock.at_step = lambda: None

    yard.clock.at_step = sleep_at_lunch
    await yard.clock.run(yard.reaper, 10)
    assert yard.states() == {"a": ("active", 0)}


async def test_records_that_nobody_has_seen_for_a_day_are_dropped(yard: Yard) -> None:
    yard.alive |= {2, 3}
    yard.register("yesterday", pid=2, seen_ms=90_000_000 - 86_400_001)
    yard.register("today", pid=3, seen_ms=90_000_000 - 86_400_000)
    await yard.clock.run(yard.reaper, 10)
    assert set(yard.store.fleet.records) == {"me", "today"}


async def test_a_reaper_bears_the_stress_of_a_service() -> None:
    yard = Yard()
    reaper = Reaper(
        yard.store,
        worker="me",
        is_alive=lambda identity: True,
        lease_ms=30,
        poll_ms=1,
        max_crashes=3,
        clock=SystemClock(),
        publish=yard.published.append,
    )
    yard.store.jobs.add("a", worker="w")
    yard.store.jobs.expired.add("a")
    await stress(reaper)
    assert yard.store.jobs.records["a"].state is JobState.WAITING
