"""One held lock: the body of `async with locks.lock(...)`, its renewal, and what happens when it is lost."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from workfleet.errors import LockBusy, LockLost, StoreUnavailable
from workfleet.events import Event, LockAcquired, LockLostEvent
from workfleet.model.fleet import LockGrant
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store

_RETRY_S = 0.25
_LAST_RETRY_S = 5.0
_TIDY_S = 1.0


class LockBoard(Protocol):
    """Where a worker notes the locks it holds, so that they are renewed while user code blocks its loop."""

    def put_lock(self, name: str, owner: str, *, ttl_ms: int, since_ms: int | None = None) -> int: ...
    def renewed_ms(self, slot: int) -> int | None: ...
    def clear(self, slot: int) -> None: ...


class Held:
    """What the body gets: the fence to pass along, and `check` for code that cannot be cancelled."""

    def __init__(self, grant: LockGrant, ttl_ms: int, clock: Clock, asked_at: float) -> None:
        self.name, self.fence = grant.name, grant.fence
        self.lost = False
        self._ttl_s, self._clock, self._renewed_at = ttl_ms / 1000, clock, asked_at
        self._board: LockBoard | None = None
        self._slot = -1

    def check(self) -> None:
        """Raise `LockLost` when the lock is not ours any more, or may not be for much longer: less than a third of its
        TTL is left, and nobody could renew it. It asks no store, so it is for tight loops too."""
        if self._clock.monotonic() >= self.safe_until:
            raise LockLost(self.name)

    @property
    def safe_until(self) -> float:
        """The safe deadline, on the monotonic clock: a third of the TTL before it runs out unless it is renewed. It was
        always over for one that is lost."""
        last = self._last_renewed()
        return -math.inf if self.lost else last + self._ttl_s * 2 / 3

    @property
    def expires_at(self) -> float:
        """When it has run out by itself, on the monotonic clock, unless it is renewed."""
        return self._last_renewed() + self._ttl_s

    def kept(self, asked_at: float) -> None:
        """The store was asked at that instant to renew it, and did."""
        self._renewed_at = asked_at

    def noted(self, board: LockBoard, slot: int) -> None:
        """It is renewed by whoever reads this board as well, and what comes of that is written there."""
        self._board, self._slot = board, slot

    def _last_renewed(self) -> float:
        elsewhere_ms = self._board.renewed_ms(self._slot) if self._board is not None else None
        if elsewhere_ms is None:
            return self._renewed_at
        self.lost = self.lost or elsewhere_ms < 0
        return max(self._renewed_at, elsewhere_ms / 1000)


class Body:
    """An async context manager, for one use."""

    def __init__(
        self,
        key: str,
        ttl_ms: int,
        *,
        acquire: Callable[[str], Awaitable[tuple[LockGrant, float]]],
        store: Callable[[], Awaitable[Store]],
        owner: str,
        clock: Clock,
        publish: Callable[[Event], None],
        board: LockBoard | None,
        later: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`acquire` also says at which monotonic instant it asked for what it got. `later` runs what the body need not
        wait for."""
        self._key, self._ttl_ms, self._acquire, self._store = key, ttl_ms, acquire, store
        self._owner, self._clock, self._publish = owner, clock, publish
        self._board, self._later = board, later
        self._held: Held | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancellations = 0
        self._cancelled_body = self._over = self._told = False
        self._slot = -1

    async def __aenter__(self) -> Held:
        grant, asked_at = await self._acquired()
        held = self._held = Held(grant, self._ttl_ms, self._clock, asked_at)
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancellations = self._task.cancelling()
        if self._board is not None:
            self._slot = self._board.put_lock(
                self._key, self._owner, ttl_ms=self._ttl_ms, since_ms=int(asked_at * 1000)
            )
            held.noted(self._board, self._slot)
        self._publish(LockAcquired(lock=self._key, fence=grant.fence))
        self._renewal = asyncio.create_task(self._keep(asked_at), name=f"renew {self._key}")
        return held

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        held, renewal = self._held, self._renewal
        assert held is not None
        assert renewal is not None
        self._over = True
        renewal.cancel()
        cancelled_elsewhere = self._uncancelled()
        expires_at = held.expires_at
        if self._board is not None:
            self._board.clear(self._slot)
        await asyncio.shield(asyncio.gather(renewal, self._released(expires_at), return_exceptions=True))
        # After the body it is nobody's to `check`.
        lost, held.lost = held.lost, True
        if lost:
            self._tell_lost()
        if cancelled_elsewhere:
            raise asyncio.CancelledError
        if lost and (error is None or isinstance(error, asyncio.CancelledError)):
            raise LockLost(self._key) from None

    async def _acquired(self) -> tuple[LockGrant, float]:
        try:
            return await self._acquire(self._owner)
        except LockBusy:
            raise
        except BaseException:
            # A reply that was lost, or that nobody waits for any more: the store may have given it to us all the same,
            # and nobody would renew or release it.
            await asyncio.shield(self._released(self._clock.monotonic() + self._ttl_ms / 1000))
            raise

    async def _released(self, expires_at: float) -> None:
        """The body's outcome matters more than the wait: where the store does not answer it is asked again beside what
        follows the body, until the lock has expired by itself."""
        answer = await self._release()
        if answer is None:
            self._later(self._release_until(expires_at))
        elif not answer and self._held is not None:
            # It ran out, perhaps unseen, because the body kept the loop from everything else.
            self._held.lost = True

    async def _release(self) -> bool | None:
        """Whether it was ours to release; None: nobody knows."""
        try:
            async with asyncio.timeout(_TIDY_S):
                return await (await self._store()).locks.release(self._key, self._owner)
        except (StoreUnavailable, TimeoutError):
            return None

    async def _release_until(self, expires_at: float) -> None:
        pause_s = _RETRY_S
        while self._clock.monotonic() + pause_s < expires_at:
            await self._clock.sleep(pause_s)
            if await self._release() is not None:
                return
            pause_s = min(pause_s * 2, _LAST_RETRY_S)

    async def _keep(self, granted_at: float) -> None:
        """Whatever ends the renewal before the body has ended, the lock counts as lost."""
        try:
            await self._renew(granted_at)
        finally:
            if not self._over:
                self._lose()

    async def _renew(self, renewed_at: float) -> None:
        """Every third of the TTL, until it is lost."""
        at: float | None = renewed_at
        while at is not None:
            await self._clock.sleep(at + self._ttl_ms / 3000 - self._clock.monotonic())
            at = await self._renewed()

    async def _renewed(self) -> float | None:
        """When it was renewed; None: it is lost. A store that does not answer is asked again until a third of the TTL
        is left, the safe deadline: after that somebody else may take the lock before we would notice."""
        held, ttl_s = self._held, self._ttl_ms / 1000
        assert held is not None
        # After a pause of this process there is time for one try, because somebody else may have renewed it.
        least_s = ttl_s / 3
        while True:
            asked_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(max(held.safe_until - asked_at, least_s)):
                    grant = await (await self._store()).locks.renew(self._key, self._owner, self._ttl_ms)
            except (StoreUnavailable, TimeoutError):
                if self._clock.monotonic() >= held.safe_until:
                    return None
                least_s = 0.0
                await self._clock.sleep(min(_RETRY_S, ttl_s / 10))
            else:
                if grant is None:
                    return None
                held.kept(asked_at)
                return asked_at

    def _lose(self) -> None:
        assert self._held is not None
        self._held.lost = True
        self._tell_lost()
        if self._task is not None and not self._task.done():
            self._cancelled_body = True
            self._task.cancel()

    def _tell_lost(self) -> None:
        if not self._told:
            self._told = True
            self._publish(LockLostEvent(lock=self._key))

    def _uncancelled(self) -> bool:
        """Take back our own cancellation of the body, which has been delivered: the body was waiting for something when
        we asked. True: somebody else has asked for one too."""
        if not self._cancelled_body:
            return False
        assert self._task is not None
        return self._task.uncancel() > self._cancellations
