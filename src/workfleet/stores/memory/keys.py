"""Small values with an expiry, in memory."""

from __future__ import annotations

from workfleet.ports.clock import Clock


class MemoryKeys:
    """A `KeyStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[bytes, int]] = {}

    async def get(self, key: str) -> bytes | None:
        return self._live().get(key)

    async def put_if_absent(self, key: str, value: bytes, ttl_ms: int) -> bytes | None:
        there = self._live().get(key)
        if there is None:
            self._put(key, value, ttl_ms)
        return there

    async def replace(self, key: str, expected: bytes, value: bytes, ttl_ms: int) -> bool:
        if self._live().get(key) not in (expected, value):
            return False
        self._put(key, value, ttl_ms)
        return True

    async def delete(self, key: str, expected: bytes) -> bool:
        if self._live().get(key) != expected:
            return False
        del self._values[key]
        return True

    def sweep(self) -> None:
        """Drop what has expired."""
        now = self._clock.now_ms()
        self._values = {key: kept for key, kept in self._values.items() if kept[1] > now}

    def _live(self) -> dict[str, bytes]:
        self.sweep()
        return {key: value for key, (value, _) in self._values.items()}

    def _put(self, key: str, value: bytes, ttl_ms: int) -> None:
        self._values[key] = (value, self._clock.now_ms() + ttl_ms)
