"""The loop that moves rows of the outbox into the store.

A row is enqueued under the id that it was written with, then deleted. Killed in between, it is enqueued again: the
store knows the id. What was moved but could not be deleted is remembered, so that an outage of the application's
database, however long, does not bring jobs back whose records the store has dropped meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from workfleet.errors import OutboxUnavailable, StoreUnavailable
from workfleet.events import (
    Event,
    JobEnqueued,
    OutboxMoved,
    OutboxRecovered,
    OutboxRowRefused,
    OutboxRowsStranded,
    OutboxTrouble,
)
from workfleet.ids import derived_id
from workfleet.model.jobs import JobRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore

from .rows import Row, Unreadable, read
from .source import Leftovers, Refusal, Source

_FIRST_RETRY_S = 0.25
_LAST_RETRY_S = 15.0
_ENQUEUE_S = 30.0
_COUNT_EVERY_S = 30.0
_STRANDED_MS = 600_000
"""Rows of another app that have waited so long are moved by nobody, or its workers have stopped."""


class Relay:
    """A Service. Several at once share the rows, or take turns."""

    name = "outbox"

    def __init__(
        self,
        source: Source,
        jobs: JobStore,
        *,
        default_queue: str,
        poll_ms: int,
        batch: int,
        clock: Clock,
        publish: Callable[[Event], None],
        enabled: bool = True,
    ) -> None:
        """`default_queue` is for jobs that name no queue; `batch` rows are moved in one step. Without `enabled` it
        serves nothing: queueing is off in this process."""
        self.source = source
        self._jobs, self._default_queue = jobs, default_queue
        self._poll_ms, self._batch, self._enabled = poll_ms, batch, enabled
        self._clock, self._publish = clock, publish
        self._moved: set[tuple[int, bytes]] = set()
        """Rows that the store has and that may still be in the table."""
        self._counted_at: float | None = None
        self._stranded: set[str] = set()
        """Other apps of which it was told that nobody moves their rows."""
        self.trouble: str | None = None
        """Why it cannot move anything at the moment."""
        self.leftovers = Leftovers()
        self.total = 0
        """How many rows were moved."""
        self.idle = not enabled
        """Whether the last look found nothing to move."""

    async def serve(self) -> None:
        if not self._enabled:
            return
        wait_s = _FIRST_RETRY_S
        try:
            while True:
                try:
                    if await self.once() < self._batch:
                        await self._count()
                        await self.source.wait(self._poll_ms / 1000)
                except (OutboxUnavailable, StoreUnavailable) as error:
                    self._failed(error)
                    # Never a wait near 0, or a server that is down is asked in a tight loop by an unlucky draw.
                    await self._clock.sleep(wait_s * random.uniform(0.5, 1))
                    wait_s = min(wait_s * 2, _LAST_RETRY_S)
                else:
                    wait_s = _FIRST_RETRY_S
        finally:
            await self.source.close()

    async def once(self) -> int:
        """Move the rows of one batch; returns how many were looked at. Raises `OutboxUnavailable` and
        `StoreUnavailable`."""
        rows = await self.source.take(self._batch)
        self.idle = not rows
        if rows:
            try:
                await self._move(rows)
            except StoreUnavailable:
                await self.source.release()
                raise
        self._recovered()
        return len(rows)

    async def _move(self, rows: Sequence[Row]) -> None:
        records, refused = self._read([row for row in rows if row.key not in self._moved])
        bad = {refusal.row.key for refusal in refused}
        good = [row for row in rows if row.key not in bad]
        if records:
            refused += await self._enqueue_all(records, good)
            bad = {refusal.row.key for refusal in refused}
            good = [row for row in good if row.key not in bad]
            # Counted here: a stop may come between the rows' end and what follows it.
            self.total += sum(row.key not in self._moved for row in good)
            self._moved.update(row.key for row in good)
        await self.source.finish(good, refused)
        self._moved.clear()
        if good:
            self._publish(OutboxMoved(count=len(good)))
        for refusal in refused:
            job_id = refusal.row.id.decode(errors="replace")
            self._publish(OutboxRowRefused(position=refusal.row.position, id=job_id, reason=refusal.reason))
            self._counted_at = None

    def _read(self, rows: Sequence[Row]) -> tuple[list[JobRecord], list[Refusal]]:
        records, refused = list[JobRecord](), list[Refusal]()
        for row in rows:
            try:
                records.append(read(row, self._default_queue))
            except Unreadable as error:
                refused.append(Refusal(row, str(error)))
        return records, refused

    async def _enqueue_all(self, records: list[JobRecord], rows: Sequence[Row]) -> list[Refusal]:
        """Enqueue them; returns what the store cannot take, which must not hold up the others."""
        try:
            await self._enqueue(records)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: a row is whatever somebody wrote into a table
            by_id = {row.id: row for row in rows}
            if len(records) == 1:
                return [Refusal(by_id[records[0].id.encode()], f"{type(error).__name__}: {error}")]
            return [refusal for record in records for refusal in await self._enqueue_all([record], rows)]
        return []

    async def _enqueue(self, records: list[JobRecord]) -> None:
        # The same rows make the same call: a repeat after a kill is answered as the first one was.
        call = derived_id("outbox", *(record.id for record in records))
        try:
            async with asyncio.timeout(_ENQUEUE_S):
                answers = await self._jobs.enqueue(records, call=call)
        except TimeoutError:
            raise StoreUnavailable("of jobs", f"no answer within {_ENQUEUE_S:g} s") from None
        for record, answer in zip(records, answers, strict=True):
            self._publish(JobEnqueued(id=answer.id, name=record.name, queue=record.queue, created=answer.created))

    async def _count(self) -> None:
        """Now and then, and after each refusal: rows that stay behind are for somebody to look at."""
        now = self._clock.monotonic()
        if self._counted_at is None or now - self._counted_at >= _COUNT_EVERY_S:
            self.leftovers = left = await self.source.leftovers(self._clock.now_ms() - _STRANDED_MS)
            self._counted_at = now
            for app in sorted(left.others.keys() - self._stranded):
                self._publish(OutboxRowsStranded(app=app, count=left.others[app], database=self.source.shown))
            self._stranded = set(left.others)

    def _failed(self, error: OutboxUnavailable | StoreUnavailable) -> None:
        """An outage is told once."""
        if self.trouble is None:
            self._publish(OutboxTrouble(error=str(error)))
        self.trouble, self.idle = str(error), False

    def _recovered(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._publish(OutboxRecovered(database=self.source.shown))
