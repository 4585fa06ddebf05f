"""Writes what another process has counted to the metric store, as it is, and says what is kept.

The registry knows nothing of it: what this process tells of itself is only its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import MetricRow

from .flusher import FINAL_FLUSH_S
from .store import MetricStore

Parcel: TypeAlias = tuple[int, Sequence[MetricRow]]
"""Rows, and the number by which they are said to be kept."""


@dataclass(frozen=True, slots=True)
class Handed:
    """Where parcels arrive, and who hears that one is kept."""

    parcels: asyncio.Queue[Parcel]
    kept: Callable[[int], None]


class HandedRows:
    """A service. It writes at once, because whoever counted waits for the answer. An outage of the store is told by the
    one who flushes this process's own rows."""

    name = "metrics of the supervisor"

    def __init__(self, handed: Handed, store: MetricStore, clock: Clock, *, again_ms: int) -> None:
        self._handed, self._store, self._clock, self._again_ms = handed, store, clock, again_ms
        self._writing: asyncio.Task[bool] | None = None
        self._parcel: Parcel | None = None
        """The one that is not written yet."""

    async def serve(self) -> None:
        try:
            while True:
                self._parcel = self._parcel or await self._handed.parcels.get()
                # Shielded: what a cancelled write has written nobody knows, and it would be written twice.
                if not await asyncio.shield(self._started()):
                    await self._clock.sleep(self._again_ms / 1000)
        except asyncio.CancelledError:
            await self._finish()
            raise

    def _started(self) -> asyncio.Task[bool]:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name=self.name)
        return self._writing

    async def _write(self) -> bool:
        """False: the store refused, and it is kept for another try."""
        assert self._parcel is not None, "it is written when there is one"
        number, rows = self._parcel
        try:
            await self._store.write(rows)
        except StoreUnavailable:
            return False
        self._parcel = None
        self._handed.kept(number)
        return True

    async def _finish(self) -> None:
        """What has come is written, but a store that hangs must not hold up the stop: the supervisor still has it."""
        try:
            async with asyncio.timeout(FINAL_FLUSH_S):
                while self._parcel is not None or not self._handed.parcels.empty():
                    self._parcel = self._parcel or self._handed.parcels.get_nowait()
                    if not await self._started():
                        return
        except TimeoutError:
            pass
        finally:
            if self._writing is not None:
                self._writing.cancel()
