"""The run ledger, in Redis: a sorted set of rows for each schedule, and one that says which has the oldest rows.

All of it expires by itself when nothing is added for as long as rows are kept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from workfleet.model.ledger import LedgerKeep, LedgerRow

from ..texts import clean_row
from .scripts import Script
from .session import Session

_rows = msgspec.json.Decoder(LedgerRow)
_encoder = msgspec.json.Encoder()
_packed = msgspec.msgpack.Encoder()


class RedisLedger:
    """A `LedgerStore`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.layout.app("ledger")
        self._record = Script.load("ledger_record")
        self._prune = Script.load("ledger_prune")

    async def record(self, rows: Sequence[LedgerRow], keep: LedgerKeep) -> None:
        # The id stands first in the text, so that rows of one instant are in its order.
        said = [(self._key(row.schedule), str(row.at_ms), _encoder.encode(clean_row(row)).decode()) for row in rows]
        await self._session.run(self._record, [self._index], (keep.age_ms, keep.count, _packed.encode(said)))

    async def history(self, schedule: str, limit: int = 100) -> list[LedgerRow]:
        found = await self._session.connection.command("ZREVRANGE", self._key(schedule), 0, limit - 1, "WITHSCORES")
        return [_row(schedule, said, int(at)) for said, at in zip(*[iter(found)] * 2, strict=True)]

    async def prune(self, age_ms: int, limit: int = 1_000) -> int:
        deleted: int = await self._session.run(self._prune, [self._index], (age_ms, limit))
        return deleted

    def _key(self, schedule: str) -> str:
        return self._session.layout.named("runs", schedule)


def _row(schedule: str, said: bytes, at_ms: int) -> LedgerRow:
    try:
        return _rows.decode(said)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        told = f"this version cannot read the row: {error}"
        return LedgerRow(id="", at_ms=at_ms, schedule=schedule, outcome="undecodable", error=told)
