"""`FaultyStore`: any store, with calls that fail or hang as a test says."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, cast

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.ports.clock import Clock
from workfleet.ports.exam import StoreExam
from workfleet.ports.jobs import JobStore
from workfleet.ports.ledger import LedgerStore
from workfleet.ports.pulse import Pulse, PulseRequest
from workfleet.ports.schedules import ScheduleStore
from workfleet.ports.stores import FleetStore, KeyStore, LockStore, QueueStore, Store

When = Literal["before", "after"]
"""Nothing of the call has happened; or all of it has, and the reply is lost."""


@dataclass(frozen=True)
class _Fault:
    when: When
    hang_ms: int = 0


@dataclass(frozen=True)
class _Rate:
    share: float
    when: tuple[When, ...]
    hang_ms: int
    random: random.Random

    def drawn(self) -> _Fault | None:
        # Three numbers for each call, whatever they decide: the same seed then means the same calls.
        failing, when, hanging = self.random.random(), self.random.choice(self.when), self.random.random()
        if failing >= self.share:
            return None
        return _Fault(when, self.hang_ms if hanging < 0.5 else 0)


class FaultyStore:
    """A `Store` around another one. Every call goes through; those that were asked to fail raise `StoreUnavailable`.

    A call's name is its part and its method, as "jobs.claim" or "fleet.workers", for the store's own the method alone
    ("now_ms"); a settle that also claims is "jobs.settle+claim". Numbers count the calls of one name from 1. `calls` is
    every call so far, failed ones included; `failed` are those that failed, as "jobs.claim 2 before".
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        """`clock` is what hanging calls sleep on, by default the machine's."""
        self._store, self._clock = store, clock or SystemClock()
        self._planned: dict[tuple[str, int], _Fault] = {}
        self._rate: _Rate | None = None
        self._counts: Counter[str] = Counter()
        self.calls: list[str] = []
        self.failed: list[str] = []

    def fail(self, call: str, *, number: int = 1, when: When = "before", hang: DurationLike | None = None) -> None:
        """Make one call fail. With `hang` it does so only after that time: a caller that does not wait as long is
        cancelled meanwhile, and with `when` "after" the call has been carried out all the same."""
        self._planned[call, number] = _Fault(when, 0 if hang is None else duration_ms(hang))

    def fail_randomly(
        self, share: float, *, seed: int, when: tuple[When, ...] = ("before", "after"), hang: DurationLike | None = None
    ) -> None:
        """Make a share of all calls (0 to 1) fail from now on; with `hang`, half of those only after that time."""
        self._rate = _Rate(share, when, 0 if hang is None else duration_ms(hang), random.Random(seed))

    def recover(self) -> None:
        """No call fails any more."""
        self._planned.clear()
        self._rate = None

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def app(self) -> str:
        return self._store.app

    @property
    def jobs(self) -> JobStore:
        return cast(JobStore, _Part("jobs", self._store.jobs, self._call))

    @property
    def queues(self) -> QueueStore:
        return cast(QueueStore, _Part("queues", self._store.queues, self._call))

    @property
    def schedules(self) -> ScheduleStore:
        return cast(ScheduleStore, _Part("schedules", self._store.schedules, self._call))

    @property
    def ledger(self) -> LedgerStore:
        return cast(LedgerStore, _Part("ledger", self._store.ledger, self._call))

    @property
    def locks(self) -> LockStore:
        return cast(LockStore, _Part("locks", self._store.locks, self._call))

    @property
    def keys(self) -> KeyStore:
        return cast(KeyStore, _Part("keys", self._store.keys, self._call))

    @property
    def fleet(self) -> FleetStore:
        return cast(FleetStore, _Part("fleet", self._store.fleet, self._call))

    @property
    def exam(self) -> StoreExam:
        """Never fails by itself: it is about the store underneath."""
        return self._store.exam

    async def now_ms(self) -> int:
        return cast(int, await self._call("now_ms", self._store.now_ms))

    async def pulse(self, request: PulseRequest) -> Pulse:
        return cast(Pulse, await self._call("pulse", lambda: self._store.pulse(request)))

    async def check(self) -> None:
        await self._call("check", self._store.check)

    async def close(self) -> None:
        """Close the store. This never fails."""
        await self._store.close()

    async def _call(self, name: str, call: Callable[[], Awaitable[object]]) -> object:
        self.calls.append(name)
        self._counts[name] += 1
        number = self._counts[name]
        drawn = self._rate.drawn() if self._rate is not None else None
        fault = self._planned.pop((name, number), drawn)
        if fault is None:
            return await call()
        self.failed.append(f"{name} {number} {fault.when}")
        if fault.when == "after":
            await call()
        if fault.hang_ms:
            await self._clock.sleep(fault.hang_ms / 1000)
        said = "the reply was lost" if fault.when == "after" else "the call was not carried out"
        raise StoreUnavailable(self.url, f"{said} (a fault that was asked for: {name} {number})")


class _Part:
    """One part of a store: what it awaits goes through `call`, the rest is the part's own."""

    def __init__(
        self, name: str, part: object, call: Callable[[str, Callable[[], Awaitable[object]]], Awaitable[object]]
    ) -> None:
        self._name, self._part, self._through = name, part, call

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._part, method)
        if not inspect.iscoroutinefunction(found):
            return found

        @wraps(found)
        async def through(*arguments: Any, **named: Any) -> object:
            settles_and_claims = method == "settle" and (named.get("then") or arguments[1:2] not in ((), (None,)))
            name = f"{self._name}.{method}" + ("+claim" if settles_and_claims else "")
            return await self._through(name, lambda: found(*arguments, **named))

        return through
