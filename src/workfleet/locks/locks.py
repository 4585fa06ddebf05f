"""`Locks`: take, look at and release locks that the whole fleet honours.

A lock excludes others while its TTL is honoured; its fence, which grows across owners and restarts, is what protects a
resource from an owner that was paused for longer (see Kleppmann, How to do distributed locking, 2016).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any, Literal

from workfleet.errors import LockBusy, LockUnavailable, StoreUnavailable, UsageError
from workfleet.events import Event
from workfleet.ids import new_token
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.fleet import LockGrant
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

from .held import Body, LockBoard

_MIN_TTL_MS = 1_000
_WAIT_STEP_MS = 100


class Locks:
    """The app's locks. `owner` says who we are to others who find a lock busy."""

    def __init__(
        self,
        store: Callable[[], Awaitable[Store]],
        *,
        owner: str,
        clock: Clock,
        publish: Callable[[Event], None],
        prefix: str,
        default_ttl: timedelta,
        retries: int,
        retry_delay: timedelta,
        board: LockBoard | None = None,
    ) -> None:
        self._store, self._owner, self._clock, self._publish = store, owner, clock, publish
        self._prefix, self._default_ttl = prefix, default_ttl
        self._retries, self._retry_delay_ms = retries, duration_ms(retry_delay)
        self._board = board
        self._tidying: set[asyncio.Task[None]] = set()

    def lock(self, name: str, *, ttl: DurationLike | None = None, wait: DurationLike | None = None) -> Body:
        """`async with locks.lock("ledger", ttl="1m", wait="10s") as lock:` the body runs while the lock is held.

        It is renewed while the body runs. `wait` is how long to try ("0s": once); without it, by the module's retries.
        Raises `LockBusy` when somebody else keeps it, `LockUnavailable` when the store does not answer, and `LockLost`
        from the body when it is lost."""
        ttl_ms = duration_ms(self._default_ttl if ttl is None else ttl)
        if ttl_ms < _MIN_TTL_MS:
            raise UsageError(f"lock {name!r}: ttl={ttl}: at least 1s, so that it can be renewed in time")
        wait_ms = None if wait is None else duration_ms(wait)
        return Body(
            self._key(name),
            ttl_ms,
            acquire=lambda owner: self._acquire(name, owner, ttl_ms, wait_ms),
            store=self._store,
            owner=f"{self._owner}:{new_token()}",
            clock=self._clock,
            publish=self._publish,
            board=self._board,
            later=self._later,
        )

    async def is_locked(self, name: str) -> Literal["yes", "no", "unknown"]:
        """Whether somebody holds a lock now. "unknown" when the store does not answer: it is not free then."""
        try:
            held = await (await self._store()).locks.held()
        except StoreUnavailable:
            return "unknown"
        return "yes" if any(grant.name == self._key(name) for grant in held) else "no"

    async def list(self) -> list[LockGrant]:
        """The locks that are held now, by name, which begins with the module's `key_prefix`."""
        return await (await self._store()).locks.held()

    async def release(self, name: str) -> bool:
        """Free a lock, whoever holds it: for operators. Its body is told at its next renewal. False: it was free."""
        return await (await self._store()).locks.release(self._key(name), None)

    async def take_away(self, grant: LockGrant) -> bool:
        """As `release`, of a lock from `list`, and only from who held it then. False: he does not hold it any more."""
        return await (await self._store()).locks.release(grant.name, grant.owner)

    def name_of(self, grant: LockGrant) -> str:
        """The name under which a lock from `list` is taken here; its whole key where that begins differently."""
        return grant.name.removeprefix(f"{self._prefix}:")

    async def close(self) -> None:
        """Give up what an unreachable store was still to be asked for: those locks expire by themselves."""
        left = list(self._tidying)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="release a lock")
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)

    def _key(self, name: str) -> str:
        if not name:
            raise UsageError("a lock's name cannot be empty")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UsageError(f"lock {name!r}: its name is not valid Unicode, which no store can keep") from None
        return f"{self._prefix}:{name}"

    async def _acquire(self, name: str, owner: str, ttl_ms: int, wait_ms: int | None) -> tuple[LockGrant, float]:
        """The grant, and when it was asked for on the monotonic clock."""
        started, tries, late = self._clock.monotonic(), 0, False
        while True:
            asked_at = self._clock.monotonic()
            try:
                answer = await (await self._store()).locks.acquire(self._key(name), owner, ttl_ms)
            except StoreUnavailable as error:
                raise LockUnavailable(name, error.reason) from error
            if isinstance(answer, LockGrant):
                if self._clock.monotonic() - asked_at < ttl_ms / 3000:
                    return answer, asked_at
                # Too little is left of it to begin with; asked for by its owner it is ours from now on.
                if late:
                    raise LockUnavailable(name, "its answers take longer than a third of the lock's TTL")
                late = True
                continue
            tries += 1
            pause_ms = self._pause_ms(tries, wait_ms, (self._clock.monotonic() - started) * 1000)
            if pause_ms is None:
                raise LockBusy(name, holder_of(answer.owner))
            await self._clock.sleep(pause_ms / 1000)

    def _pause_ms(self, tries: int, wait_ms: int | None, waited_ms: float) -> float | None:
        """How long until the next try, jittered so that those who wait do not come at once; None: no more."""
        if wait_ms is None:
            return self._retry_delay_ms * random.uniform(0.5, 1.5) if tries <= self._retries else None
        left = wait_ms - waited_ms
        return min(left, _WAIT_STEP_MS * random.uniform(0.5, 1.5)) if left > 0 else None


def holder_of(owner: str) -> str:
    """Who holds a lock, by the owner in the store: the worker's id, without what tells one taking from another."""
    return owner.rpartition(":")[0] or owner
