"""One small value in the store that many processes change: read, decide, and write only if nobody else has meanwhile.

Time is the store's. Every write is a value of its own, so that nobody takes another's equal write for his own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from workfleet.ids import new_token
from workfleet.ports.stores import KeyStore

R = TypeVar("R")
_TOKEN = len(new_token())

Decide = Callable[[bytes | None, int], tuple[bytes | None, R]]
"""Given what is there (None: nothing) and the store's time: what is to be there (None: as it is), and an answer."""


class SharedValues:
    """Values by key. Every call raises `StoreUnavailable`; a change may have been made all the same."""

    def __init__(self, keys: KeyStore, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._keys, self._now_ms = keys, now_ms

    async def read(self, key: str) -> bytes | None:
        """What is there."""
        there = await self._keys.get(key)
        return None if there is None else there[_TOKEN:]

    async def change(self, key: str, ttl_ms: int, decide: Decide[R]) -> R:
        """Change it as decided, which is decided anew as often as somebody else was faster."""
        there = await self._keys.get(key)
        while True:
            wanted, answer = decide(None if there is None else there[_TOKEN:], await self._now_ms())
            if wanted is None:
                return answer
            value = new_token().encode() + wanted
            if there is None:
                there = await self._keys.put_if_absent(key, value, ttl_ms)
                # Its own value is the answer to a repeat whose first reply was lost.
                if there is None or there == value:
                    return answer
            elif await self._keys.replace(key, there, value, ttl_ms):
                return answer
            else:
                there = await self._keys.get(key)
