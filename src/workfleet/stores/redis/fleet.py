"""Who works here, in Redis: what a worker said of itself, its signs of life and its instruction, its pools and
what it is to do with them, each in a hash."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import structs

from workfleet.model.fleet import Instruction, PoolOrder, ProcessIdentity, WorkerRecord

from ..orders import orders_from, pools_from
from .scripts import Script
from .session import Session

_records = msgspec.json.Decoder(WorkerRecord)
_INSTRUCTIONS = get_args(Instruction)
_KEYS = ("workers", "beats", "instructions", "pools", "orders")


class RedisFleet:
    """A `FleetStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.keys = [session.layout.app(kind) for kind in _KEYS]
        self._register = Script.load("worker_register")
        self._instruct = Script.load("worker_instruct")
        self._order = Script.load("worker_order")
        self._all = Script.load("worker_all")
        self._forget = Script.load("worker_forget")

    async def register(self, worker: WorkerRecord) -> None:
        said = structs.replace(worker, instruction=None, active=0, pools=(), orders=(), started_ms=0, seen_ms=0)
        args = (worker.id, msgspec.json.encode(said), worker.active)
        await self._session.run(self._register, self.keys, args)

    async def instruct(self, worker_id: str, instruction: Instruction | None) -> bool:
        return bool(await self._session.run(self._instruct, self.keys, (worker_id, instruction or "")))

    async def order(self, worker_id: str, order: PoolOrder) -> bool:
        return bool(await self._session.run(self._order, self.keys, (worker_id, msgspec.json.encode(order))))

    async def workers(self) -> list[WorkerRecord]:
        found = await self._session.run(self._all, self.keys, ())
        records = (worker_of(name.decode(), *facts) for name, *facts in zip(*[iter(found)] * 6, strict=True))
        return sorted(records, key=lambda record: record.id)

    async def forget(self, worker_id: str) -> bool:
        return bool(await self._session.run(self._forget, self.keys, (worker_id,)))


def worker_of(
    worker_id: str,
    said: bytes,
    beat: bytes,
    instruction: bytes | None,
    pools: bytes | None,
    orders: bytes | None,
) -> WorkerRecord:
    started, seen, active = beat.split()
    told: Any = (instruction or b"").decode(errors="replace")
    return structs.replace(
        _said(worker_id, said),
        # One of a newer version means nothing to this one.
        instruction=told if told in _INSTRUCTIONS else None,
        active=int(active),
        pools=pools_from(pools),
        orders=orders_from(orders),
        started_ms=int(started),
        seen_ms=int(seen),
    )


def _said(worker_id: str, said: bytes) -> WorkerRecord:
    try:
        return _records.decode(said)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # A worker of a newer version: shown by its id and its signs of life, and taken for nobody's process.
        return WorkerRecord(id=worker_id, identity=ProcessIdentity(host="", boot_id="", pid=0, started=""))
