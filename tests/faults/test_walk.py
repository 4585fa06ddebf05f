"""The fault walk: every store call of a job's life fails once, in each way, and nothing is lost or done twice.

Which calls there are is found out by a run without faults, so that a new call is walked over without a change here."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.faults.fast import FastClock, FastLoop
from tests.faults.life import Life, opened
from workfleet.testing import FaultyStore
from workfleet.testing.faults import When

STORES = ("memory", "sqlite")
MOST = 4
"""So many calls of each name fail, one a case: the first ones, which differ most."""
KNOWN = {
    "now_ms", "fleet.register", "fleet.workers", "fleet.forget", "pulse", "jobs.enqueue", "jobs.claim",
    "jobs.settle", "jobs.settle+claim", "jobs.renew", "jobs.report", "jobs.take_over", "jobs.expires_in_ms",
    "jobs.next_due_ms", "jobs.wait",
    "jobs.counts", "jobs.prune", "schedules.merge", "schedules.get", "schedules.page", "schedules.claim_due",
    "schedules.fire", "schedules.wait", "locks.held",
    "jobs.cancel", "jobs.cancels", "jobs.wait_for_cancels", "queues.set_limits",
    "keys.put_if_absent", "keys.replace", "locks.acquire", "locks.release",
}  # fmt: skip
SHORT = "400ms"
FAULTS: dict[str, Callable[..., None]] = {
    "before": lambda store, call, number: store.fail(call, number=number),
    "after": lambda store, call, number: store.fail(call, number=number, when="after"),
    "hangs-before": lambda store, call, number: store.fail(call, number=number, hang=SHORT),
    "hangs-after": lambda store, call, number: store.fail(call, number=number, when="after", hang=SHORT),
}


class Walk:
    """Lives on one kind of store, each on a store of its own."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.numbers = itertools.count()
        self.met: Counter[str] = Counter()
        """How often a call of that name has failed."""
        self.wrong: list[str] = []

    def live(
        self, title: str, prepare: Callable[[FaultyStore], None], *, renewing: bool = False, explained: int = 0
    ) -> list[str]:
        """One life. Returns the calls."""

        async def case() -> Life:
            clock = FastClock()
            store = await opened(self.kind, self.folder, next(self.numbers), clock)
            life = Life(store, clock, renewing=renewing, explained=explained)
            prepare(life.store)
            await life.live()
            return life

        with asyncio.Runner(loop_factory=FastLoop) as runner:
            life = runner.run(case())
            if life.slow:
                # A busy machine is slow now and then; what waits for a lease does so each time.
                life = runner.run(case())
        self.met.update(failed.split()[0] for failed in life.store.failed)
        self.wrong += [f"{title}: {wrong}" for wrong in [*life.wrong, *filter(None, [life.slow])]]
        return life.store.calls


@pytest.fixture(params=STORES)
def walk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Walk]:
    """SQLite is in shared memory where there is any: what is tried here is not the disk."""
    monkeypatch.chdir(tmp_path)
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Walk(request.param, Path(folder))


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.full) if "hangs" in fault else fault for fault in FAULTS]
)
def test_each_store_call_fails_once(walk: Walk, fault: str) -> None:
    calls = Counter(walk.live("no fault", lambda _: None))
    longer = Counter(walk.live("no fault, a long job", lambda _: None, renewing=True))
    assert walk.wrong == []
    assert set(calls) | set(longer) >= KNOWN, "the life has become shorter"
    for call in sorted(set(calls) | set(longer)):
        renewing = call not in calls
        for number in range(1, min(longer[call] if renewing else calls[call], MOST) + 1):
            met = walk.met.total()
            for _ in range(3):
                # What a worker asks only when it has nothing else to do is not asked in every life.
                walk.live(
                    f"{call} {number} {fault}", partial(FAULTS[fault], call=call, number=number), renewing=renewing
                )
                if walk.met.total() > met:
                    break
    assert walk.wrong == []
    assert set(walk.met) == set(calls) | set(longer), "there are calls that never met their fault"


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["claim", "settle", "settle+claim", "report", "renew", "take_over", "enqueue"])
def test_a_call_hangs_for_longer_than_a_lease(walk: Walk, call: str, when: When) -> None:
    """Callers give up before, and what they asked for has happened or not. A job may run once more, never twice."""
    for number in (1, 2):
        prepare = partial(FaultyStore.fail, call=f"jobs.{call}", number=number, when=when, hang="15s")
        walk.live(f"{call} {number} {when}", prepare, renewing=True, explained=1)
    assert walk.met
    assert walk.wrong == []


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_calls_fail_at_random(walk: Walk, seed: int) -> None:
    share = random.Random(seed).choice((0.02, 0.1, 0.3))
    walk.live(f"seed {seed}", lambda store: store.fail_randomly(share, seed=seed, hang="20ms"))
    assert walk.met
    assert walk.wrong == []
