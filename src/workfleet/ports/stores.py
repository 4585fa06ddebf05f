"""The store seam: small Protocols that define what a store is. `workfleet.testing.contracts` checks them.

A store belongs to one app: it sees only that app's jobs, schedules, locks, keys and workers. It applies what it is told
and holds no policy. Every call is one atomic step. Time is the store's own (`Store.now_ms`).

Every state-changing call may be repeated after a lost reply: nothing is done twice. What a job's life is made of also
gives the first answer again: `claim` and `take_over` know a repeat by the token, `settle` by the claim, `enqueue`,
`report` and `fire` by a `call` that the caller makes new for each call. The others answer from what they find, so that
a repeated `remove` is False and a repeated `put_if_absent` returns the caller's own value.

Any call may raise `StoreUnavailable`; then nothing of it, or all of it, has happened, and it may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from workfleet.model.fleet import Instruction, LockGrant, LockHeld, PoolOrder, WorkerRecord
from workfleet.model.limits import QueueLimits, QueueRecord

from .exam import StoreExam
from .jobs import JobStore
from .ledger import LedgerStore
from .pulse import Pulse, PulseRequest
from .schedules import ScheduleStore


class QueueStore(Protocol):
    """What is kept of queues beside their jobs. A queue that never had a job can be paused and limited as well."""

    async def set_limits(self, limits: Mapping[str, QueueLimits]) -> None:
        """Replace the limits of these queues, and wake who waits for them."""
        ...

    async def set_paused(self, queue: str, *, paused: bool) -> bool:
        """Pause or resume a queue; resuming wakes. False when it was so already."""
        ...

    async def all(self) -> dict[str, QueueRecord]:
        """Every queue that has or had jobs, or about which something was said, by name."""
        ...


class LockStore(Protocol):
    """Locks with fences. A fence is max(last + 1, store time in µs), one counter a store."""

    async def acquire(self, name: str, owner: str, ttl_ms: int) -> LockGrant | LockHeld:
        """Take a lock that is free or expired. An owner that holds it already gets its own grant, renewed."""
        ...

    async def renew(self, name: str, owner: str, ttl_ms: int) -> LockGrant | None:
        """Extend a lock that the owner still holds, fence kept; None when it is lost."""
        ...

    async def release(self, name: str, owner: str | None) -> bool:
        """Free a lock of that owner (None: whoever holds it). False when there was nothing to free."""
        ...

    async def held(self) -> list[LockGrant]:
        """Locks that are held now, by name."""
        ...


class KeyStore(Protocol):
    """Small values with an expiry, for idempotency and the like."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None when absent or expired."""
        ...

    async def put_if_absent(self, key: str, value: bytes, ttl_ms: int) -> bytes | None:
        """Store a value unless there is one; returns the one that was there, else None."""
        ...

    async def replace(self, key: str, expected: bytes, value: bytes, ttl_ms: int) -> bool:
        """Change a value only while it is `expected`. A repeat whose `value` is there already is True."""
        ...

    async def delete(self, key: str, expected: bytes) -> bool:
        """Delete a value only while it is `expected`."""
        ...


class FleetStore(Protocol):
    """Who works here."""

    async def register(self, worker: WorkerRecord) -> None:
        """Add or replace a worker's record; sets `started_ms` and `seen_ms`."""
        ...

    async def instruct(self, worker_id: str, instruction: Instruction | None) -> bool:
        """Tell a worker what to do; None takes it back. It learns so at its next pulse. False when there is no such
        record. `register` clears it."""
        ...

    async def order(self, worker_id: str, order: PoolOrder) -> bool:
        """Tell a worker what to do with one of its pools. It learns so at its next pulse, and again until it says there
        that it has obeyed. An order takes the place of an earlier one with its id, or of the same verb for the same
        pool. False when there is no such record. `register` clears them."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """All records, by id."""
        ...

    async def forget(self, worker_id: str) -> bool:
        """Delete a record."""
        ...


class Store(Protocol):
    """One app's store, open until `close()`."""

    @property
    def url(self) -> str:
        """What it is, without secrets, for people."""
        ...

    @property
    def app(self) -> str: ...
    @property
    def jobs(self) -> JobStore: ...
    @property
    def queues(self) -> QueueStore: ...
    @property
    def schedules(self) -> ScheduleStore: ...
    @property
    def ledger(self) -> LedgerStore: ...
    @property
    def locks(self) -> LockStore: ...
    @property
    def keys(self) -> KeyStore: ...
    @property
    def fleet(self) -> FleetStore: ...
    @property
    def exam(self) -> StoreExam: ...

    async def now_ms(self) -> int:
        """The store's time, by which leases and due times are judged."""
        ...

    async def pulse(self, request: PulseRequest) -> Pulse:
        """What a worker asks at every poll, in one step: enqueue the probe, claim, and settle all that was claimed,
        which is otherwise the same as these three; set the worker's `seen_ms` to now, its `active` and
        `pools`; forget the orders that it has obeyed; and look around.

        Wakes who waits here, as if it had just been notified: for schedules, at this store's first pulse, when one
        changed since the last, and when the store's time has jumped since; for those of `queues` that are not paused
        and have ready jobs, or delayed ones that are due `within_ms`. So none of them has to poll as often."""
        ...

    async def check(self) -> None:
        """A real write that is rolled back or overwritten. Raises `StoreUnavailable`."""
        ...

    async def close(self) -> None: ...
