"""Locks with fences, in SQLite."""

from __future__ import annotations

from workfleet.model.fleet import LockGrant, LockHeld

from .lane import Step
from .lanes import Lanes

_GRANT = """
INSERT INTO wf_lock (app, name, owner, fence, expires_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (app, name) DO UPDATE SET owner = excluded.owner, fence = excluded.fence, expires_ms = excluded.expires_ms
"""


class SqliteLocks:
    """A `LockStore`. The fence counter is the file's, in `wf_meta`, so that it outlives every lock and process."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def acquire(self, name: str, owner: str, ttl_ms: int) -> LockGrant | LockHeld:
        def operation(step: Step) -> LockGrant | LockHeld:
            there = self._live(step, name)
            if there is not None and there.owner != owner:
                return LockHeld(name, there.owner, there.expires_ms)
            return self._grant(step, name, owner, ttl_ms, _next_fence(step) if there is None else there.fence)

        return await self._lanes.write(operation)

    async def renew(self, name: str, owner: str, ttl_ms: int) -> LockGrant | None:
        def operation(step: Step) -> LockGrant | None:
            there = self._live(step, name)
            if there is None or there.owner != owner:
                return None
            return self._grant(step, name, owner, ttl_ms, there.fence)

        return await self._lanes.write(operation)

    async def release(self, name: str, owner: str | None) -> bool:
        release = "DELETE FROM wf_lock WHERE app = ? AND name = ? AND owner = coalesce(?, owner) AND expires_ms > ?"
        return await self._lanes.write(lambda step: bool(step.change(release, self._app, name, owner, step.now)))

    async def held(self) -> list[LockGrant]:
        held = "SELECT name, owner, fence, expires_ms FROM wf_lock WHERE app = ? AND expires_ms > ? ORDER BY name"
        return await self._lanes.read(lambda step: [LockGrant(*row) for row in step.rows(held, self._app, step.now)])

    def _live(self, step: Step, name: str) -> LockGrant | None:
        live = "SELECT name, owner, fence, expires_ms FROM wf_lock WHERE app = ? AND name = ? AND expires_ms > ?"
        row = step.row(live, self._app, name, step.now)
        return None if row is None else LockGrant(*row)

    def _grant(self, step: Step, name: str, owner: str, ttl_ms: int, fence: int) -> LockGrant:
        grant = LockGrant(name, owner, fence, step.now + ttl_ms)
        step.change(_GRANT, self._app, name, owner, fence, grant.expires_ms)
        return grant


def _next_fence(step: Step) -> int:
    step.change("UPDATE wf_meta SET value = max(value + 1, ?) WHERE key = 'fence'", step.now * 1000)
    row = step.row("SELECT value FROM wf_meta WHERE key = 'fence'")
    assert row is not None
    fence: int = row[0]
    return fence
