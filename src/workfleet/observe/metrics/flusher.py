"""Writes the registry to the metric store at an interval and once more at the end. Must not know which store it is.

Rows that could not be written are kept, in order, and tried again; what the buffer cannot hold is dropped, oldest
first, and told. A worker that is killed loses what it has counted since the last flush.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, MetricsDropped
from workfleet.ports.clock import Clock

from .model import UNCHANGED_MS, MetricRow
from .registry import MetricsRegistry
from .store import MetricStore, trouble
from .unchanged import Unchanged

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
        again_ms: int = UNCHANGED_MS,
    ) -> None:
        """A gauge that has not changed is written once more after `again_ms`."""
        self._registry, self._store, self._clock, self._publish = registry, store, clock, publish
        self._interval_ms, self._batch_size, self._buffer_limit = interval_ms, batch_size, buffer_limit
        self._rows: deque[MetricRow] = deque()
        self._unchanged = Unchanged(again_ms=again_ms)
        self._error: str | None = None
        self._dropped = 0
        """Rows whose loss is not told yet: the first one of an outage is told at once, the others when it is over."""
        self._told_of_dropping = False
        self.name = "metrics flush"
        self._writing = asyncio.Lock()
        self._flushing: set[asyncio.Task[bool]] = set()

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
        # Shielded: what a cancelled write has written nobody knows, and it would be written twice.
        return await asyncio.shield(self._started())

    def _started(self) -> asyncio.Task[bool]:
        task = asyncio.create_task(self._flush(), name=self.name)
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)
        return task

    async def _flush(self) -> bool:
        async with self._writing:
            self._rows.extend(self._unchanged.left_out(self._registry.drain(self._clock.now_ms())))
            try:
                await self._write()
            except StoreUnavailable as error:
                self._refused(error)
                return False
            self._tell_dropped()
            self._error, self._told_of_dropping = None, False
            return True

    async def _write(self) -> None:
        while self._rows:
            batch = list(islice(self._rows, self._batch_size))
            await self._store.write(batch)
            for _ in batch:
                self._rows.popleft()

    async def _finish(self) -> None:
        """The last flush, after the one that may be on its way. A store that hangs must not hold up the stop, and what
        is lost is told."""
        try:
            async with asyncio.timeout(FINAL_FLUSH_S):
                await self.flush()
        except TimeoutError:
            self._error = f"the store did not answer within {FINAL_FLUSH_S:g} s"
            for task in self._flushing:
                task.cancel()
        self._dropped += len(self._rows)
        self._rows.clear()
        self._tell_dropped()

    def _refused(self, error: StoreUnavailable) -> None:
        if self._error is None:
            # Once an outage, not once a flush.
            self._publish(trouble(error))
        self._error = str(error)
        surplus = max(len(self._rows) - self._buffer_limit, 0)
        if surplus:
            for _ in range(surplus):
                self._rows.popleft()
            self._unchanged.forget()
            self._registry.drop("buffer_full", surplus)
            self._dropped += surplus
            if not self._told_of_dropping:
                self._tell_dropped()
                self._told_of_dropping = True

    def _tell_dropped(self) -> None:
        if self._dropped:
            self._publish(MetricsDropped(count=self._dropped, error=self._error or ""))
            self._dropped = 0
