"""Random histories against two stores side by side: every answer, and after every step everything that is stored.

    from workfleet.testing.contracts.machine import compare

    def test_histories(tmp_path):
        async def opener(app: str, clock: Clock) -> Store:
            return await open_store(f"sqlite://{tmp_path}/store.db", app=app, clock=clock, create=True)
        compare(opener)

A difference is an `AssertionError` that shows the history as code; with `shrink=True`, a short one. Who is right, the
store or the one in memory, is to be decided from `workfleet.ports.stores`. Needs hypothesis, which nothing else here
does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from msgspec import structs

from workfleet.model.jobs import Claim, JobRecord, JobState
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import Ended
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, JobQuery, PruneRule, Settled, TakeOver
from workfleet.ports.stores import Store
from workfleet.stores.memory.store import MemoryStore

from . import histories as hs  # first: it says what to install where hypothesis is missing
from .harness import ManualClock, Opener, ended, inconsistencies

# isort: split
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

T = TypeVar("T")
_REMEMBERED_MS = 300_000
"""Calls and claims are repeated for as long as this: a store may forget its notes of old ones."""
_ALL = JobQuery(limit=10_000)


@dataclass(frozen=True)
class Call:
    """A call that was made, for its repeat."""

    ask: Callable[[Store], Awaitable[Any]]
    at_ms: int
    answer: Any
    promises: bool
    """Whether a repeat gives the first answer again, while nothing else has happened and no time has passed."""
    of_ready: bool
    """Whether it asks which jobs have become ready."""


class Comparison(RuleBasedStateMachine):
    """One random history. `reference` is right until the ports' docstrings say otherwise."""

    def __init__(self, opener: Opener, reference: Opener, app: str) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._clock = ManualClock()
        self._reference = self._run(reference(app, self._clock))
        self._store = self._run(opener(app, self._clock))
        self._calls: list[Call] = []
        self._claimed: dict[Claim, tuple[int, JobRecord]] = {}
        self._numbers = itertools.count(1)
        self._rated = self._disturbed = False

    def teardown(self) -> None:
        try:
            self._run(self._reference.close())
            self._run(self._store.close())
        finally:
            self._loop.close()

    @initialize(rated=st.booleans())
    def begin(self, rated: bool) -> None:  # noqa: FBT001 - hypothesis passes it by its name
        """A rate counts what starts after it was set, so it is there from the beginning, or never."""
        self._rated = rated
        self._limit("q", None, 1, (1, 2), 2)
        self._limit("r", 3, None, (2, 1), 1)

    # Each history begins with jobs: an empty store has little to say.
    @initialize(jobs=st.lists(hs.JOBS, min_size=3, max_size=8))
    def begin_with(self, jobs: list[JobRecord]) -> None:
        if _meets_itself(jobs):
            return
        self._change(lambda store: store.jobs.enqueue(jobs))

    @rule(jobs=st.lists(hs.JOBS, min_size=1, max_size=4), called=st.booleans())
    def enqueue(self, jobs: list[JobRecord], called: bool) -> None:  # noqa: FBT001
        if _meets_itself(jobs):
            return
        call = f"c{next(self._numbers)}" if called else None
        answers = self._change(lambda store: store.jobs.enqueue(jobs, call=call))
        kept = any(not (answer.created or answer.replaced) for answer in answers)
        once = len({job.id for job in jobs}) == len(jobs)
        # Only the last newcomers of a job are known. One of an older call that comes again with a newer one is not. Nor
        # is which of two jobs with one id was meant.
        if called and once and not (kept and any(answer.replaced for answer in answers)):
            self._calls[-1] = replace(self._calls[-1], promises=True)

    @rule(request=hs.REQUESTS)
    def claim(self, request: ClaimRequest) -> None:
        named = self._named(request)
        self._change(lambda store: store.jobs.claim(named), promises=True)

    @precondition(lambda self: self._claimed)
    @rule(picks=hs.PICKS, ends=st.lists(st.sampled_from(hs.ENDS), min_size=3, max_size=3), then=st.none() | hs.REQUESTS)
    def settle(self, picks: list[int], ends: list[Ended], then: ClaimRequest | None) -> None:
        named = None if then is None else self._named(then)
        settlements = [ended(record, how) for record, how in zip(self._picked(picks), ends, strict=False)]
        # A job that is settled and claimed again in one call is another one at its repeat.
        # Of two outcomes for one job, a repeat takes both for the one that was applied last.
        once = len({settlement.claim.job_id for settlement in settlements}) == len(settlements)
        self._change(lambda store: store.jobs.settle(settlements, named), promises=named is None and once)

    # What makes most of a history comes more often: a rule is as likely as any other.
    @rule(jobs=st.lists(hs.JOBS, min_size=1, max_size=4))
    def enqueue_more(self, jobs: list[JobRecord]) -> None:
        if _meets_itself(jobs):
            return
        self._change(lambda store: store.jobs.enqueue(jobs))

    @rule(request=hs.REQUESTS)
    def claim_more(self, request: ClaimRequest) -> None:
        self.claim(request)

    @precondition(lambda self: self._claimed)
    @rule(picks=hs.PICKS, how=st.sampled_from(hs.ENDS))
    def settle_more(self, picks: list[int], how: Ended) -> None:
        self.settle(picks, [how] * len(picks), None)

    @precondition(lambda self: self._claimed)
    @rule(picks=hs.PICKS, what=st.sampled_from(["renew", "report", "cancels"]), lease_ms=hs.LEASES)
    def say(self, picks: list[int], what: str, lease_ms: int) -> None:
        claims = [record.claim for record in self._picked(picks)]
        if what == "renew":
            self._change(lambda store: store.jobs.renew(claims, lease_ms))
        elif what == "report":
            call, progress = f"c{next(self._numbers)}", b"5" if lease_ms == 100 else None
            lines = [f"line {lease_ms}"] * (len(picks) - 1)
            self._change(
                lambda store: store.jobs.report(claims[0], progress=progress, lines=lines, call=call), promises=True
            )
        else:
            self._both(lambda store: store.jobs.cancels(claims))

    @rule(workers=st.none() | st.lists(hs.WORKERS, max_size=2).map(tuple), worker=hs.WORKERS, limit=st.integers(1, 4))
    def take_over(self, workers: tuple[str, ...] | None, worker: str, limit: int) -> None:
        request = TakeOver(worker, f"t{next(self._numbers)}", 1_000, limit, workers)
        self._change(lambda store: store.jobs.take_over(request), promises=True)

    @precondition(lambda self: self._calls)
    @rule(back=st.sampled_from([0, 0, 0, 1, 2, 5]))
    def repeat(self, back: int) -> None:
        call = self._calls[-1 - back % len(self._calls)]
        if call.of_ready and self._overdue():
            return
        answer = self._both(call.ask, shown=_unordered)
        # Time alone may change it: a claim that found nothing is made anew.
        # So may an older call that was repeated since.
        if call is not self._calls[-1]:
            self._disturbed = True
        elif call.promises and not self._disturbed and call.at_ms == self._clock.now_ms():
            assert _unordered(answer) == _unordered(call.answer), "a repeat gives another answer"
        self._take_note(answer)

    @rule(what=st.sampled_from(["cancel", "retry", "promote", "delete"]), ids=hs.SOME_IDS)
    def operate(self, what: str, ids: list[str]) -> None:
        if what != "promote" or not self._overdue():
            self._change(lambda store: getattr(store.jobs, what)(ids), of_ready=what == "promote")

    @rule(queue=hs.QUEUES, states=st.lists(hs.STATES, max_size=4), limit=st.integers(1, 3))
    def purge(self, queue: str, states: list[JobState], limit: int) -> None:
        if not self._overdue():
            self._change(lambda store: store.jobs.purge(queue, states, limit), of_ready=True)

    @rule(state=st.sampled_from([JobState.COMPLETED, JobState.FAILED]), age_ms=st.none() | st.just(100), count=hs.FEW)
    def prune(self, state: JobState, age_ms: int | None, count: int | None) -> None:
        rules = [PruneRule(state, age_ms, count), PruneRule(state, age_ms, count, housekeeping=True)]
        self._change(lambda store: store.jobs.prune(rules))

    @rule(queue=hs.QUEUES, paused=st.sampled_from([False, False, True]))
    def pause(self, queue: str, paused: bool) -> None:  # noqa: FBT001
        self._change(lambda store: store.queues.set_paused(queue, paused=paused))

    @rule(queue=hs.QUEUES, slots=hs.FEW, of_group=hs.FEW, weights=st.tuples(hs.WEIGHTS, hs.WEIGHTS), rate=hs.RATES)
    def limit(self, queue: str, slots: int | None, of_group: int | None, weights: tuple[int, int], rate: int) -> None:
        self._limit(queue, slots, of_group, weights, rate)

    @rule(ms=st.sampled_from([1, 99, 100, 400, 500, 700, 1_000, 5_000, 30_000, 1_000_000]))
    def travel(self, ms: int) -> None:
        self._run(self._clock.advance(ms))
        since = self._clock.now_ms() - _REMEMBERED_MS
        self._calls = [call for call in self._calls if call.at_ms >= since]
        held = {record.claim for record in self._records() if record.token is not None}
        self._claimed = {claim: it for claim, it in self._claimed.items() if it[0] >= since or claim in held}

    @rule(query=hs.QUERIES, after=st.none() | st.sampled_from(hs.IDS), ago_ms=hs.FEW)
    def find(self, query: JobQuery, after: str | None, ago_ms: int | None) -> None:
        if self._overdue():
            return
        now = self._clock.now_ms()
        there = [record for record in self._records() if record.id == after]
        page = structs.replace(query, after=(there[0].created_ms, there[0].id) if there else None)
        if ago_ms is not None:
            page = structs.replace(page, created_from_ms=now - ago_ms * 100, created_before_ms=now)
        self._both(lambda store: store.jobs.find(page))

    @invariant()
    def what_is_stored_is_the_same(self) -> None:
        now = self._clock.now_ms()

        async def look() -> None:
            expected, found = [await store.jobs.find(_ALL) for store in (self._reference, self._store)]
            wrong = _differences(expected, found, now) + await inconsistencies(self._store)
            assert not wrong, "\n".join(["the stores differ:", *wrong])
            overdue = any(job.state is JobState.DELAYED and job.due_ms <= now for job in (*expected, *found))
            names = [record.id for record in expected]
            right, left = [await _rest(store, names, due=not overdue) for store in (self._reference, self._store)]
            assert left == right, f"the store has {left}, the reference {right}"

        self._run(look())

    def _limit(self, queue: str, slots: int | None, of_group: int | None, weights: tuple[int, int], rate: int) -> None:
        whole, one = (Rate(rate + 1, 1_000), Rate(rate, 700)) if self._rated else (None, None)
        group, other = (GroupLimits(weight, of_group, one) for weight in weights)
        limits = {queue: QueueLimits(slots, whole, group, {"b": other})}
        self._change(lambda store: store.queues.set_limits(limits))

    def _named(self, request: ClaimRequest) -> ClaimRequest:
        return structs.replace(request, token=f"t{next(self._numbers)}")

    def _picked(self, picks: Sequence[int]) -> list[JobRecord]:
        """Records as they were claimed, the newest by the smallest number."""
        records = [record for _, record in self._claimed.values()]
        return [records[-1 - pick % len(records)] for pick in picks]

    def _overdue(self) -> bool:
        """Whether a delayed job is due. When it becomes ready is a store's own business, so nobody asks meanwhile."""

        async def look() -> bool:
            now = self._clock.now_ms()
            found = [job for store in (self._reference, self._store) for job in await store.jobs.find(_ALL)]
            return any(job.state is JobState.DELAYED and job.due_ms <= now for job in found)

        return self._run(look())

    def _change(self, ask: Callable[[Store], Awaitable[Any]], *, promises: bool = False, of_ready: bool = False) -> Any:
        answer = self._both(ask)
        self._calls.append(Call(ask, self._clock.now_ms(), answer, promises, of_ready))
        self._disturbed = False
        self._take_note(answer)
        return answer

    def _take_note(self, answer: object) -> None:
        """Remember what was handed out."""
        records = answer.claimed if isinstance(answer, Settled) else answer
        for record in records if isinstance(records, list) else ():
            if isinstance(record, JobRecord) and record.token is not None and record.claim not in self._claimed:
                self._claimed[record.claim] = (self._clock.now_ms(), record)

    def _both(self, ask: Callable[[Store], Awaitable[T]], shown: Callable[[Any], Any] | None = None) -> T:
        expected, found = self._run(_all(ask(store) for store in (self._reference, self._store)))
        same = found == expected if shown is None else shown(found) == shown(expected)
        assert same, f"the store answers {found}, the reference {expected}"
        return expected

    def _records(self) -> list[JobRecord]:
        return self._run(self._reference.jobs.find(_ALL))

    def _run(self, awaitable: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await awaitable

        return self._loop.run_until_complete(awaited())


def _meets_itself(jobs: Sequence[JobRecord]) -> bool:
    """Whether one call says two things of one id, and one of them may replace another job: which of the two an answer
    is about is a store's own business."""
    again = len({job.id for job in jobs}) < len(jobs)
    return again and any(job.unique.on_conflict != "keep" for job in jobs)


async def _rest(store: Store, names: Sequence[str], *, due: bool) -> dict[str, object]:
    """What else can be seen of a store."""
    return {
        "places": {name: await store.jobs.place(name) for name in names},
        "logs": {name: lines for name in names if (lines := await store.jobs.logs(name))},
        "queues": await store.queues.all(),
        "queues with jobs": sorted(await store.jobs.counts()),
        "queues with users' jobs": sorted(await store.jobs.counts(housekeeping=False)),
        "due": [await store.jobs.next_due_ms(list(queues)) for queues in ("q", "r", "qr")] if due else None,
    }


async def _all(asked: Iterable[Awaitable[T]]) -> list[T]:
    """The answers, one after the other."""
    return [await each for each in asked]


def _unordered(answer: object) -> object:
    """A repeat may give the same jobs in another order."""
    if isinstance(answer, Settled):
        return answer.applied, _unordered(answer.claimed)
    if isinstance(answer, list) and answer and isinstance(answer[0], JobRecord):
        return sorted(answer, key=lambda record: record.id)
    return answer


def _differences(expected: Sequence[JobRecord], found: Sequence[JobRecord], now_ms: int) -> list[str]:
    """What differs, field by field. Whether what is due was made ready yet is a store's own business."""
    wrong: list[str] = []
    if [record.id for record in found] != [record.id for record in expected]:
        return [f"jobs: {[record.id for record in found]}, not {[record.id for record in expected]}"]
    for right, left in zip(expected, found, strict=True):
        for field in right.__struct_fields__:
            wanted, got = getattr(right, field), getattr(left, field)
            if field == "state":
                wanted, got = _as_if_ripened(right, now_ms), _as_if_ripened(left, now_ms)
            if got != wanted:
                wrong.append(f"{right.id}.{field}: {got!r}, not {wanted!r}")
    return wrong


def _as_if_ripened(record: JobRecord, now_ms: int) -> JobState:
    if record.state is JobState.DELAYED and not record.parked and record.due_ms <= now_ms:
        return JobState.PRIORITIZED if record.priority else JobState.WAITING
    return record.state


async def _reference(app: str, clock: Clock) -> Store:
    return MemoryStore(app, clock)


def compare(
    opener: Opener,
    *,
    reference: Opener = _reference,
    examples: int = 50,
    steps: int = 30,
    random: bool = False,
    shrink: bool = False,
) -> None:
    """Run histories of so many steps against the store that `opener` opens and the reference. Raises AssertionError.

    Each history is of an app of its own, so `opener` may open the same place each time. They are the same every time,
    unless `random`. With `shrink` a shorter history is looked for that shows the same difference. To be called where no
    event loop runs."""
    apps = (f"history{number}" for number in itertools.count(1))
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not random,
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )

    def machine() -> RuleBasedStateMachine:
        return Comparison(opener, reference, next(apps))

    # It takes any function that makes a machine, whatever its annotation says.
    run_machine(cast(Any, machine), settings=profile)
