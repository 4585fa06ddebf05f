"""Small values with an expiry, in Redis: a string each, its own end in front of the value."""

from __future__ import annotations

from .scripts import Script
from .session import Session


class RedisKeys:
    """A `KeyStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._get = Script.load("key_get")
        self._put = Script.load("key_put")
        self._replace = Script.load("key_replace")
        self._delete = Script.load("key_delete")

    async def get(self, key: str) -> bytes | None:
        return await self._value(self._get, key)

    async def put_if_absent(self, key: str, value: bytes, ttl_ms: int) -> bytes | None:
        return await self._value(self._put, key, value, ttl_ms)

    async def replace(self, key: str, expected: bytes, value: bytes, ttl_ms: int) -> bool:
        return bool(await self._session.run(self._replace, [self._name(key)], (expected, value, ttl_ms)))

    async def delete(self, key: str, expected: bytes) -> bool:
        return bool(await self._session.run(self._delete, [self._name(key)], (expected,)))

    async def _value(self, script: Script, key: str, *args: bytes | int) -> bytes | None:
        value: bytes | None = await self._session.run(script, [self._name(key)], args)
        return value

    def _name(self, key: str) -> str:
        return self._session.layout.named("value", key)
