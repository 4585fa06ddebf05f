"""Locks with fences, in Redis: who holds what in a hash, until when in a sorted set, and the fence in a counter that
has no end."""

from __future__ import annotations

from workfleet.model.fleet import LockGrant, LockHeld

from .scripts import Script
from .session import Session


class RedisLocks:
    """A `LockStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys = [session.layout.app(kind) for kind in ("locks", "lock_owners", "fence")]
        self._acquire = Script.load("lock_acquire")
        self._renew = Script.load("lock_renew")
        self._release = Script.load("lock_release")
        self._held = Script.load("lock_held")

    async def acquire(self, name: str, owner: str, ttl_ms: int) -> LockGrant | LockHeld:
        holder, fence, expires = await self._session.run(self._acquire, self._keys, (name, owner, ttl_ms))
        if holder.decode() != owner:
            return LockHeld(name, holder.decode(), int(expires))
        return LockGrant(name, owner, int(fence), int(expires))

    async def renew(self, name: str, owner: str, ttl_ms: int) -> LockGrant | None:
        renewed = await self._session.run(self._renew, self._keys, (name, owner, ttl_ms))
        return None if renewed is None else LockGrant(name, owner, int(renewed[0]), int(renewed[1]))

    async def release(self, name: str, owner: str | None) -> bool:
        named = () if owner is None else (owner,)
        return bool(await self._session.run(self._release, self._keys, (name, *named)))

    async def held(self) -> list[LockGrant]:
        found = await self._session.run(self._held, self._keys, ())
        grants = (
            LockGrant(name.decode(), owner.decode(), int(fence), int(expires))
            for name, owner, fence, expires in zip(*[iter(found)] * 4, strict=True)
        )
        return sorted(grants, key=lambda grant: grant.name)
