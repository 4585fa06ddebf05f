"""Writes the run ledger: what happens to runs of schedules becomes rows, which are written together.

It hears of events and never holds up who tells them. A store that refuses is told once; rows wait for it, and what the
buffer cannot hold is dropped, the oldest first, and told. Must not know how a store keeps rows.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from workfleet.bus import shown
from workfleet.events import (
    Event,
    JobRecovered,
    JobSettled,
    LedgerDropped,
    ScheduleCoalesced,
    ScheduleMissed,
    ScheduleSkipped,
    StoreTrouble,
)
from workfleet.ids import new_token
from workfleet.model.ledger import LedgerKeep, LedgerRow
from workfleet.ports.clock import Clock
from workfleet.ports.ledger import LedgerStore

_BATCH = 100
_TOGETHER_S = 0.1
"""Rows of this time are written together; a process that is killed loses as many at the most."""
_RETRY_S = 1.0
_TEXT_LIMIT = 2_000


class Ledger:
    """A Service, and a subscriber of the bus. `worker` is who runs what is settled here. At most `limit` rows wait."""

    name = "run ledger"

    def __init__(
        self,
        store: LedgerStore,
        keep: LedgerKeep,
        *,
        worker: str,
        clock: Clock,
        publish: Callable[[Event], None],
        limit: int = 10_000,
    ) -> None:
        self._store, self._keep, self._worker = store, keep, worker
        self._clock, self._publish, self._limit = clock, publish, limit
        self._rows: deque[LedgerRow] = deque()
        self._batch: list[LedgerRow] = []
        """What is being written. It is given again as it was after a lost reply."""
        self._something = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._error: str | None = None
        self._untold = 0
        self._numbers, self._own = itertools.count(1), new_token()
        self.dropped = 0
        """Rows that were lost so far."""
        self._hears: dict[type[Event], Callable[[Any], None]] = {
            JobSettled: self._settled,
            JobRecovered: self.recovered,
            ScheduleSkipped: self._skipped,
            ScheduleCoalesced: self._coalesced,
            ScheduleMissed: self._missed,
        }

    def route(self, kind: type[Event]) -> Callable[[Any], None] | None:
        return self._hears.get(kind)

    async def serve(self) -> None:
        while True:
            await self._something.wait()
            await self._clock.sleep(_TOGETHER_S)
            if not await self.flush():
                await self._clock.sleep(_RETRY_S)

    async def flush(self) -> bool:
        """Write all that waits. False when the store refused: then it is kept for the next time."""
        async with self._flushing:
            self._something.clear()
            while self._batch or self._rows:
                if not self._batch:
                    self._batch = [self._rows.popleft() for _ in range(min(_BATCH, len(self._rows)))]
                try:
                    await self._store.record(self._batch, self._keep)
                except Exception as error:  # noqa: BLE001 - the boundary around the ledger: however broken, no run ends by it
                    self._refused(error)
                    return False
                self._batch = []
            if self._untold:
                self._tell_dropped()
            self._error = None
            return True

    async def finish(self, timeout_ms: int) -> None:
        """The last flush. A store that hangs does not hold up the stop; what is lost is told."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.flush()
        except TimeoutError:
            self._error = f"the store did not answer within {timeout_ms} ms"
        lost = len(self._batch) + len(self._rows)
        self._batch, self._rows = [], deque()
        self._drop(lost)
        if self._untold:
            self._tell_dropped()

    def _refused(self, error: Exception) -> None:
        said = str(error) or shown(error)
        if self._error is None:
            # Once an outage, not once a run.
            self._publish(StoreTrouble(what="writing the run ledger", error=said))
        self._error = said
        self._something.set()

    def _add(self, row: LedgerRow) -> None:
        if len(self._rows) >= self._limit:
            self._rows.popleft()
            self._drop(1)
        self._rows.append(row)
        self._something.set()

    def _next_id(self) -> str:
        # Nobody else's, and those of one instant stay in the order of what happened.
        return f"{next(self._numbers):012x}-{self._own}"

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._untold += count

    def _tell_dropped(self) -> None:
        count, self._untold = self._untold, 0
        self._publish(LedgerDropped(count=count, error=self._error or "its buffer was full"))

    def _settled(self, event: JobSettled) -> None:
        # For every job of the process: those of no schedule, and the product's own, end here.
        if event.schedule is None or event.housekeeping:
            return
        self._attempt(event, event.schedule, event.ended_ms, self._worker, event.error)

    def recovered(self, event: JobRecovered) -> None:
        """Somebody has taken over a run whose worker is gone."""
        if event.schedule is None or event.housekeeping:
            return
        self._attempt(event, event.schedule, self._clock.now_ms(), event.worker, event.how)

    def _attempt(
        self,
        event: JobSettled | JobRecovered,
        schedule: str,
        ended_ms: int,
        worker: str,
        error: str | None,
    ) -> None:
        self._add(
            LedgerRow(
                id=self._next_id(),
                at_ms=ended_ms,
                schedule=schedule,
                outcome=event.outcome,
                slot_ms=event.slot_ms,
                job_id=event.id,
                attempt=event.attempt,
                started_ms=event.started_ms,
                worker=worker,
                error=None if error is None else error[:_TEXT_LIMIT],
            )
        )

    def _skipped(self, event: ScheduleSkipped) -> None:
        self._no_run(event, "skipped", count=event.count)

    def _coalesced(self, event: ScheduleCoalesced) -> None:
        self._no_run(event, "coalesced", job_id=event.job_id)

    def _missed(self, event: ScheduleMissed) -> None:
        self._no_run(event, "missed", count=event.count)

    def _no_run(
        self,
        event: ScheduleSkipped | ScheduleCoalesced | ScheduleMissed,
        outcome: str,
        *,
        count: int = 1,
        job_id: str | None = None,
    ) -> None:
        self._add(
            LedgerRow(
                id=self._next_id(),
                at_ms=self._clock.now_ms(),
                schedule=event.schedule,
                outcome=outcome,
                slot_ms=event.slot_ms,
                job_id=job_id,
                worker=self._worker,
                error=event.reason[:_TEXT_LIMIT] or None,
                count=count,
            )
        )
