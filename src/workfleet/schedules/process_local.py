"""Schedules that belong to one process (the heartbeat): nothing is stored but the jobs they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.ids import derived_id
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore

from .due import run_of
from .telling import enqueued

_LONGEST_SLEEP_S = 3_600.0


class ProcessLocalScheduler:
    """A Service. A slot that cannot be enqueued because the store is down is left out: the next one says as much."""

    name = "process schedules"

    def __init__(
        self,
        records: Sequence[ScheduleRecord],
        jobs: JobStore,
        *,
        worker: str,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._records, self._jobs, self._worker, self._clock = list(records), jobs, worker, clock
        self._publish = publish

    async def serve(self) -> None:
        due = {record.name: record.timing.next_after(self._clock.now_ms()) for record in self._records}
        while True:
            now = self._clock.now_ms()
            for record in self._records:
                slot, following = due[record.name], record.timing.next_after(now)
                if slot is not None and slot <= now:
                    await self._enqueue(record, slot)
                    due[record.name] = following
                elif slot is not None and following is not None and following < slot:
                    due[record.name] = following  # the clock was set back
            times = [slot for slot in due.values() if slot is not None]
            wait_s = (min(times) - now) / 1000 if times else _LONGEST_SLEEP_S
            await self._clock.sleep(min(wait_s, _LONGEST_SLEEP_S))

    async def _enqueue(self, record: ScheduleRecord, slot: int) -> None:
        job = run_of(record, derived_id(record.name, self._worker, slot), slot)
        job.unique_key = None if job.unique_key is None else f"{job.unique_key} {self._worker}"
        job.metadata = {**job.metadata, "worker": self._worker}
        try:
            (answer,) = await self._jobs.enqueue([job])
        except StoreUnavailable:
            return
        if answer.created and not job.housekeeping:
            self._publish(enqueued(job))
