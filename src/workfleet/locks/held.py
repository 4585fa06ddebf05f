"""One held lock: the body of `async with locks.lock(...)`, its renewal, and what happens when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from workfleet.errors import LockLost, StoreUnavailable
from workfleet.events import Event, LockAcquired, LockLostEvent
from workfleet.model.fleet import LockGrant
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

_RETRY_S = 0.25


class LockBoard(Protocol):
    """Where a worker notes the locks it holds, so that they are renewed while user code blocks its loop."""

    def put_lock(self, name: str, owner: str, *, ttl_ms: int) -> int: ...
    def clear(self, slot: int) -> None: ...


class Held:
    """What the body gets: the fence to pass along, and `check` for code that cannot be cancelled."""

    def __init__(self, grant: LockGrant) -> None:
        self.name, self.fence = grant.name, grant.fence
        self.lost = False

    def check(self) -> None:
        """Raise `LockLost` when the lock is not ours any more."""
        if self.lost:
            raise LockLost(self.name)


class Body:
    """An async context manager, for one use."""

    def __init__(
        self,
        key: str,
        ttl_ms: int,
        *,
        acquire: Callable[[str], Awaitable[LockGrant]],
        store: Callable[[], Awaitable[Store]],
        owner: str,
        clock: Clock,
        publish: Callable[[Event], None],
        board: LockBoard | None,
    ) -> None:
        self._key, self._ttl_ms, self._acquire, self._store = key, ttl_ms, acquire, store
        self._owner, self._clock, self._publish, self._board = owner, clock, publish, board
        self._held: Held | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelled_body = False
        self._slot = -1

    async def __aenter__(self) -> Held:
        before = self._clock.monotonic()
        grant = await self._acquire(self._owner)
        self._held = Held(grant)
        self._task = asyncio.current_task()
        if self._board is not None:
            self._slot = self._board.put_lock(self._key, self._owner, ttl_ms=self._ttl_ms)
        self._publish(LockAcquired(lock=self._key, fence=grant.fence))
        self._renewal = asyncio.create_task(self._renew(before), name=f"renew {self._key}")
        return self._held

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        assert self._held is not None
        assert self._renewal is not None
        self._renewal.cancel()
        await asyncio.gather(self._renewal, return_exceptions=True)
        if self._board is not None:
            self._board.clear(self._slot)
        if not self._held.lost:
            await self._release()
        if self._cancelled_body and self._task is not None:
            self._task.uncancel()
        if self._held.lost and (error is None or isinstance(error, asyncio.CancelledError)):
            raise LockLost(self._key) from None

    async def _release(self) -> None:
        try:
            await (await self._store()).locks.release(self._key, self._owner)
        except StoreUnavailable:
            return  # it expires by itself; the body's result is more important than the wait

    async def _renew(self, granted_at: float) -> None:
        """Renew every third of the TTL. A store that does not answer is asked again until a third of the TTL is
        left: the
        safe deadline, after which somebody else may take the lock before we would notice."""
        ttl_s = self._ttl_ms / 1000
        renewed_at = granted_at
        while True:
            await self._clock.sleep(renewed_at + ttl_s / 3 - self._clock.monotonic())
            while True:
                asked_at = self._clock.monotonic()
                try:
                    grant = await (await self._store()).locks.renew(self._key, self._owner, self._ttl_ms)
                except StoreUnavailable:
                    if self._clock.monotonic() >= renewed_at + ttl_s * 2 / 3:
                        return self._lose()
                    await self._clock.sleep(min(_RETRY_S, ttl_s / 10))
                    continue
                if grant is None:
                    return self._lose()
                renewed_at = asked_at
                break

    def _lose(self) -> None:
        assert self._held is not None
        self._held.lost = True
        self._publish(LockLostEvent(lock=self._key))
        if self._task is not None and not self._task.done():
            self._cancelled_body = True
            self._task.cancel()
