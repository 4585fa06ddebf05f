"""Locks with fences, in memory."""

from __future__ import annotations

from workfleet.model.fleet import LockGrant, LockHeld
from workfleet.ports.clock import Clock


class MemoryLocks:
    """A `LockStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._grants: dict[str, LockGrant] = {}
        self._fence = 0

    async def acquire(self, name: str, owner: str, ttl_ms: int) -> LockGrant | LockHeld:
        there = self._live(name)
        if there is not None and there.owner != owner:
            return LockHeld(name, there.owner, there.expires_ms)
        return self._grant(name, owner, ttl_ms, self._next_fence() if there is None else there.fence)

    async def renew(self, name: str, owner: str, ttl_ms: int) -> LockGrant | None:
        there = self._live(name)
        if there is None or there.owner != owner:
            return None
        return self._grant(name, owner, ttl_ms, there.fence)

    async def release(self, name: str, owner: str | None) -> bool:
        there = self._live(name)
        if there is None or owner not in (None, there.owner):
            return False
        del self._grants[name]
        return True

    async def held(self) -> list[LockGrant]:
        live = (self._live(name) for name in sorted(self._grants))
        return [grant for grant in live if grant is not None]

    def sweep(self) -> None:
        """Drop what has expired."""
        self._grants = {name: grant for name, grant in self._grants.items() if self._live(name) is not None}

    def _live(self, name: str) -> LockGrant | None:
        grant = self._grants.get(name)
        return grant if grant is not None and grant.expires_ms > self._clock.now_ms() else None

    def _grant(self, name: str, owner: str, ttl_ms: int, fence: int) -> LockGrant:
        grant = self._grants[name] = LockGrant(name, owner, fence, self._clock.now_ms() + ttl_ms)
        return grant

    def _next_fence(self) -> int:
        self._fence = max(self._fence + 1, self._clock.now_ms() * 1000)
        return self._fence
