"""`@idempotent`: each key's work is done once in the fleet while its result is remembered."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Raw, Struct

from workfleet.ids import new_token
from workfleet.payloads.codec import Codec
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed
from workfleet.ports.stores import KeyStore
from workfleet.templates import Template

_LIMIT = 64 * 1024 * 1024
_RUNNING_MS = 60_000
_POLL_S = 0.05
_LAST_POLL_S = 1.0


class _Note(Struct, omit_defaults=True):
    """What is stored: who runs it now, or the result."""

    owner: str | None = None
    result: Raw | None = None


class Idempotent:
    """A guard. The note of a running call is renewed while it runs, so that a killed one frees its key in a minute."""

    def __init__(self, name: str, key: Template, ttl_ms: int, keys: KeyStore, clock: Clock, result: Any) -> None:
        self._name, self._key, self._ttl_ms, self._keys, self._clock = name, key, ttl_ms, keys, clock
        self._codec = Codec(result, f"result of {name}", limit=_LIMIT)

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        key = f"idempotent {self._name} {self._key.fill(call.values)}"
        mine = msgspec.json.encode(_Note(owner=new_token()))
        wait_s = _POLL_S
        while (there := await self._keys.put_if_absent(key, mine, _RUNNING_MS)) is not None:
            note = msgspec.json.decode(there, type=_Note)
            if note.result is not None:
                return self._codec.decode(bytes(note.result))
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LAST_POLL_S)
        return await self._first(key, mine, proceed)

    async def _first(self, key: str, mine: bytes, proceed: Proceed) -> object:
        renewal = asyncio.create_task(self._renew(key, mine))
        try:
            value = await proceed()
            note = msgspec.json.encode(_Note(result=Raw(self._codec.encode(value))))
        except BaseException:
            await _stopped(renewal)
            await self._keys.delete(key, mine)
            raise
        await _stopped(renewal)
        await self._keys.replace(key, mine, note, self._ttl_ms)
        return value

    async def _renew(self, key: str, mine: bytes) -> None:
        while True:
            await self._clock.sleep(_RUNNING_MS / 3000)
            await self._keys.replace(key, mine, mine, _RUNNING_MS)


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
