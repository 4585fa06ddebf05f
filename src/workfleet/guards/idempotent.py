"""`@idempotent`: each key's work is done once in the fleet while its result is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from workfleet.errors import Fail, PayloadRejected, StoreUnavailable
from workfleet.events import Event, StoreTrouble
from workfleet.ids import new_token
from workfleet.model.queue import LARGEST_PAYLOAD
from workfleet.payloads.codec import Codec
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed
from workfleet.ports.stores import KeyStore
from workfleet.templates import Template

_RUNNING_MS = 60_000
_RENEW_S, _AGAIN_S = 20.0, 2.0
_POLL_S = 0.05
_LAST_POLL_S = 1.0
_LAST_TRIES = 5


class _Note(Struct, omit_defaults=True):
    """What is stored: who runs it now, or, when `done`, the result."""

    owner: str | None = None
    done: bool = False
    result: Raw = Raw(b"null")


def result_codec(name: str, result: Any) -> Codec:
    """Of the results of a function. Raises `PayloadRejected` for a type that cannot be remembered."""
    return Codec(result, f"result of {name}", limit=LARGEST_PAYLOAD)


class Idempotent:
    """A guard. The note of a running call is renewed while it runs, so that a killed one frees its key in a minute."""

    def __init__(
        self,
        name: str,
        key: Template,
        ttl_ms: int,
        max_bytes: int,
        keys: KeyStore,
        clock: Clock,
        publish: Callable[[Event], None],
        codec: Codec,
    ) -> None:
        """`codec` is of the result (see `result_codec`)."""
        self._name, self._key, self._ttl_ms, self._max_bytes, self._keys = name, key, ttl_ms, max_bytes, keys
        self._clock, self._publish = clock, publish
        self._codec = codec

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        key = f"idempotent {self._name} {self._key.fill(call.values)}"
        mine = msgspec.json.encode(_Note(owner=new_token()))
        wait_s = _POLL_S
        while (there := await self._noted(key, mine)) is not None:
            note = msgspec.json.decode(there, type=_Note)
            if note.done:
                return self._codec.decode(bytes(note.result))
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 1.5, _LAST_POLL_S)
        return await self._first(key, mine, proceed)

    async def _noted(self, key: str, mine: bytes) -> bytes | None:
        """Note that it runs here, unless something is noted; then what that is."""
        try:
            return await self._keys.put_if_absent(key, mine, _RUNNING_MS)
        except BaseException:
            # A reply that was lost, or that nobody waits for: if it is there, a repeat would wait until it expires.
            await self._forget(key, mine)
            raise

    async def _first(self, key: str, mine: bytes, proceed: Proceed) -> object:
        renewal = asyncio.create_task(self._renew(key, mine))
        try:
            value = await proceed()
            note = self._note_of(value)
        except BaseException:
            await _stopped(renewal)
            await self._forget(key, mine)
            raise
        await _stopped(renewal)
        await self._remember(key, mine, note)
        return value

    def _note_of(self, value: object) -> bytes:
        try:
            result = self._codec.encode(value)
        except PayloadRejected as error:
            # The work is done: another attempt would do it again and come to the same.
            raise Fail(str(error)) from error
        if len(result) > self._max_bytes:
            raise Fail(
                f"result of {self._name}: {len(result):,} bytes of JSON cannot be remembered, max_result is "
                f"{self._max_bytes:,}: keep it elsewhere and return where, or raise max_result"
            )
        return msgspec.json.encode(_Note(done=True, result=Raw(result)))

    async def _remember(self, key: str, mine: bytes, note: bytes) -> None:
        """The work is done, so an outage must not fail the call: it is told, and a repeat would do the work again."""
        wait_s = _POLL_S
        for attempt in range(_LAST_TRIES):
            try:
                await self._keys.replace(key, mine, note, self._ttl_ms)
            except StoreUnavailable as error:
                if attempt == _LAST_TRIES - 1:
                    self._publish(StoreTrouble(what=f"remembering the result of {self._name}", error=str(error)))
                    return
            else:
                return
            await self._clock.sleep(wait_s)
            wait_s *= 2

    async def _forget(self, key: str, mine: bytes) -> None:
        try:
            await asyncio.shield(self._keys.delete(key, mine))
        except StoreUnavailable:
            return  # it expires in a minute; the call's own error matters more

    async def _renew(self, key: str, mine: bytes) -> None:
        wait_s = _RENEW_S
        while True:
            await self._clock.sleep(wait_s)
            try:
                await self._keys.replace(key, mine, mine, _RUNNING_MS)
                wait_s = _RENEW_S
            except StoreUnavailable:
                wait_s = _AGAIN_S


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
