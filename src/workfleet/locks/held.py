"""One held lock: the body of `async with locks.lock(...)`, its renewal, and what happens when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from workfleet.errors import LockBusy, LockLost, StoreUnavailable
from workfleet.events import Event, LockAcquired, LockLostEvent
from workfleet.model.fleet import LockGrant
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

_RETRY_S = 0.25
_TIDY_S = 1.0


class LockBoard(Protocol):
    """Where a worker notes the locks it holds, so that they are renewed while user code blocks its loop."""

    def put_lock(self, name: str, owner: str, *, ttl_ms: int) -> int: ...
    def clear(self, slot: int) -> None: ...


class Held:
    """What the body gets: the fence to pass along, and `check` for code that cannot be cancelled."""

    def __init__(self, grant: LockGrant, clock: Clock) -> None:
        self.name, self.fence = grant.name, grant.fence
        self.lost = False
        self.until: float | None = None
        """When it runs out unless it is renewed, on the monotonic clock. None: somebody else renews it as well."""
        self._clock = clock

    def check(self) -> None:
        """Raise `LockLost` when the lock is not ours any more. It asks no store, so it is for tight loops too."""
        if self.lost or (self.until is not None and self._clock.monotonic() >= self.until):
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
        self._cancellations = 0
        self._cancelled_body = self._over = False
        self._slot = -1

    async def __aenter__(self) -> Held:
        asked_at = self._clock.monotonic()
        grant = await self._acquired()
        held = self._held = Held(grant, self._clock)
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancellations = self._task.cancelling()
        if self._board is not None:
            self._slot = self._board.put_lock(self._key, self._owner, ttl_ms=self._ttl_ms)
        self._kept(asked_at)
        self._publish(LockAcquired(lock=self._key, fence=grant.fence))
        self._renewal = asyncio.create_task(self._keep(asked_at), name=f"renew {self._key}")
        return held

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        assert self._held is not None
        assert self._renewal is not None
        self._over = True
        self._renewal.cancel()
        cancelled_elsewhere = self._uncancelled()
        if self._board is not None:
            self._board.clear(self._slot)
        tidying = asyncio.gather(self._renewal, self._release(), return_exceptions=True)
        await asyncio.shield(tidying)
        if cancelled_elsewhere:
            raise asyncio.CancelledError
        if self._held.lost and (error is None or isinstance(error, asyncio.CancelledError)):
            raise LockLost(self._key) from None

    async def _acquired(self) -> LockGrant:
        try:
            return await self._acquire(self._owner)
        except LockBusy:
            raise
        except BaseException:
            # A reply that was lost, or that nobody waits for any more: the store may have given it to us all the same,
            # and nobody would renew or release it.
            await asyncio.shield(self._release())
            raise

    async def _release(self) -> None:
        """Where it fails the lock expires by itself: the body's outcome matters more than the wait."""
        try:
            async with asyncio.timeout(_TIDY_S):
                await (await self._store()).locks.release(self._key, self._owner)
        except (StoreUnavailable, TimeoutError):
            return

    async def _keep(self, granted_at: float) -> None:
        """Whatever ends the renewal before the body has ended, the lock counts as lost."""
        try:
            await self._renew(granted_at)
        finally:
            if not self._over:
                self._lose()

    async def _renew(self, renewed_at: float) -> None:
        """Every third of the TTL, until it is lost."""
        ttl_s = self._ttl_ms / 1000
        at: float | None = renewed_at
        while at is not None:
            await self._clock.sleep(at + ttl_s / 3 - self._clock.monotonic())
            at = await self._renewed(safe_until=at + ttl_s * 2 / 3)
            if at is not None:
                self._kept(at)

    async def _renewed(self, safe_until: float) -> float | None:
        """When it was renewed; None: it is lost. A store that does not answer is asked again until a third of the TTL
        is left, the safe deadline: after that somebody else may take the lock before we would notice."""
        ttl_s = self._ttl_ms / 1000
        while True:
            asked_at = self._clock.monotonic()
            try:
                # After a pause of this process there is time for one try, because somebody else may have renewed it.
                async with asyncio.timeout(max(safe_until - asked_at, ttl_s / 3)):
                    grant = await (await self._store()).locks.renew(self._key, self._owner, self._ttl_ms)
            except (StoreUnavailable, TimeoutError):
                if self._clock.monotonic() >= safe_until:
                    return None
                await self._clock.sleep(min(_RETRY_S, ttl_s / 10))
            else:
                return None if grant is None else asked_at

    def _kept(self, since: float) -> None:
        assert self._held is not None
        self._held.until = since + self._ttl_ms / 1000 if self._slot < 0 else None

    def _lose(self) -> None:
        assert self._held is not None
        self._held.lost = True
        self._publish(LockLostEvent(lock=self._key))
        if self._task is not None and not self._task.done():
            self._cancelled_body = True
            self._task.cancel()

    def _uncancelled(self) -> bool:
        """Take back our own cancellation of the body, which has been delivered: the body was waiting for something when
        we asked. True: somebody else has asked for one too."""
        if not self._cancelled_body:
            return False
        assert self._task is not None
        return self._task.uncancel() > self._cancellations
