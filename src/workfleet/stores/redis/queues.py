"""What is said about queues, in Redis. Limits of a whole queue and pauses are where BullMQ has them, in `meta`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from workfleet.model.limits import NO_LIMITS, QueueLimits, QueueRecord, Rate

from .asking import Asking
from .scripts import Script
from .session import Session

_encoder = msgspec.json.Encoder()
_groups = msgspec.json.Decoder(QueueLimits)


class RedisQueues:
    """A `QueueStore`."""

    def __init__(self, session: Session) -> None:
        self._session, self._asking = session, Asking(session)
        self._limits, self._pause, self._all = Script.load("limits"), Script.load("pause"), Script.load("queues")

    async def set_limits(self, limits: Mapping[str, QueueLimits]) -> None:
        asked = [_asked(name, said) for name, said in limits.items()]
        self._session.announce(await self._asking.ask(self._limits, {"queues": asked}))

    async def set_paused(self, queue: str, *, paused: bool) -> bool:
        return bool(await self._asking.change(self._pause, {"queue": queue, "paused": paused}))

    async def all(self) -> dict[str, QueueRecord]:
        rows = await self._asking.ask(self._all, {})
        return {row[0].decode(): _record(*row[1:]) for row in sorted(rows, key=lambda row: row[0])}


def _asked(name: str, said: QueueLimits) -> dict[str, Any]:
    asked: dict[str, Any] = {"name": name, "concurrency": said.concurrency}
    if said.rate is not None:
        asked["rate"] = (said.rate.limit, said.rate.per_ms)
    of_groups = structs.replace(said, concurrency=None, rate=None)
    if of_groups != NO_LIMITS:
        asked["groups"] = _encoder.encode(of_groups).decode()
    return asked


def _record(
    paused: int, concurrency: int | None, most: int | None, per: int | None, of_groups: bytes | None
) -> QueueRecord:
    limits = NO_LIMITS if of_groups is None else _groups.decode(of_groups)
    rate = None if most is None or per is None else Rate(most, per)
    return QueueRecord(bool(paused), structs.replace(limits, concurrency=concurrency, rate=rate))
