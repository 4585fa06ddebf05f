"""Writes the registry to the metric store at an interval and once more at the end. Must not know which store it is.

Rows that could not be written are kept, in order, and tried again; what the buffer cannot hold is dropped, oldest
first, and told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, MetricsDropped, StoreTrouble
from workfleet.ports.clock import Clock

from .model import MetricRow
from .registry import MetricsRegistry
from .store import MetricStore

FINAL_FLUSH_S = 3.0


class MetricsFlusher:
    """A service. Stop it after everything that counts, and before the store is closed."""

    def __init__(
        self,
        registry: MetricsRegistry,
        store: MetricStore,
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        interval_ms: int = 10_000,
        batch_size: int = 200,
        buffer_limit: int = 50_000,
    ) -> None:
        self._registry, self._store, self._clock, self._publish = registry, store, clock, publish
        self._interval_ms, self._batch_size, self._buffer_limit = interval_ms, batch_size, buffer_limit
        self._rows: deque[MetricRow] = deque()
        self._error: str | None = None
        self.name = "metrics flush"
        self._writing = asyncio.Lock()

    async def serve(self) -> None:
        try:
            while True:
                await self._clock.sleep(self._interval_ms / 1000)
                await self.flush()
        except asyncio.CancelledError:
            await self._finish()
            raise

    async def flush(self) -> bool:
        """Write all that is new and all that is kept. False when the store refused: then it is kept."""
        async with self._writing:
            self._rows.extend(self._registry.drain(self._clock.now_ms()))
            try:
                await self._write()
            except StoreUnavailable as error:
                self._refused(error)
                return False
            self._error = None
            return True

    async def _write(self) -> None:
        while self._rows:
            batch = list(islice(self._rows, self._batch_size))
            await self._store.write(batch)
            for _ in batch:
                self._rows.popleft()

    async def _finish(self) -> None:
        """The last flush. A store that hangs must not hold up the stop, and what is lost is told."""
        try:
            async with asyncio.timeout(FINAL_FLUSH_S):
                written = await self.flush()
        except TimeoutError:
            written, self._error = False, f"the store did not answer within {FINAL_FLUSH_S:g} s"
        if not written and self._rows:
            self._publish(MetricsDropped(count=len(self._rows), error=self._error or ""))
            self._rows.clear()

    def _refused(self, error: StoreUnavailable) -> None:
        if self._error is None:
            # Once an outage, not once a flush.
            self._publish(StoreTrouble(what="writing metrics", error=str(error)))
        self._error = str(error)
        surplus = max(len(self._rows) - self._buffer_limit, 0)
        if surplus:
            for _ in range(surplus):
                self._rows.popleft()
            self._registry.drop("buffer_full", surplus)
            self._publish(MetricsDropped(count=surplus, error=self._error))
