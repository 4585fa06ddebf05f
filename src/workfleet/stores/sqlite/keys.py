"""Small values with an expiry, in SQLite."""

from __future__ import annotations

from .lane import Step
from .lanes import Lanes

_PUT = """
INSERT INTO wf_key (app, key, value, expires_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (app, key) DO UPDATE SET value = excluded.value, expires_ms = excluded.expires_ms
"""


class SqliteKeys:
    """A `KeyStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def get(self, key: str) -> bytes | None:
        return await self._lanes.read(lambda step: self._live(step, key))

    async def put_if_absent(self, key: str, value: bytes, ttl_ms: int) -> bytes | None:
        def operation(step: Step) -> bytes | None:
            there = self._live(step, key)
            if there is None:
                step.change(_PUT, self._app, key, value, step.now + ttl_ms)
            return there

        return await self._lanes.write(operation)

    async def replace(self, key: str, expected: bytes, value: bytes, ttl_ms: int) -> bool:
        def operation(step: Step) -> bool:
            if self._live(step, key) not in (expected, value):
                return False
            step.change(_PUT, self._app, key, value, step.now + ttl_ms)
            return True

        return await self._lanes.write(operation)

    async def delete(self, key: str, expected: bytes) -> bool:
        delete = "DELETE FROM wf_key WHERE app = ? AND key = ? AND value = ? AND expires_ms > ?"
        return await self._lanes.write(lambda step: bool(step.change(delete, self._app, key, expected, step.now)))

    def _live(self, step: Step, key: str) -> bytes | None:
        live = "SELECT value FROM wf_key WHERE app = ? AND key = ? AND expires_ms > ?"
        row = step.row(live, self._app, key, step.now)
        return None if row is None else row[0]
