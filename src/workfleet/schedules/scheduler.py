"""The loop that fires what is due. Every process runs it; the store lets one of them have each slot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from workfleet.errors import StoreUnavailable
from workfleet.events import (
    Event,
    ScheduleFault,
    ScheduleFired,
    ScheduleMissed,
    ScheduleSkipped,
    ScheduleUnusable,
    StoreTrouble,
)
from workfleet.model.cron import CronError
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.ports.clock import Clock
from workfleet.ports.stores import ScheduleStore

from .due import Due, find_due, fire_of, fire_time_ms, is_live, lies_in_a_wrong_future, without_skipped

_BATCH = 100
_RETRY_S = 1.0


class Scheduler:
    """A Service. `now_ms` is the store's clock, by which slots are due. `skips` has, by schedule, the functions of the
    code that say of a slot whether it is skipped."""

    name = "scheduler"

    def __init__(
        self,
        store: ScheduleStore,
        *,
        app: str,
        now_ms: Callable[[], Awaitable[int]],
        poll_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
        wake: Callable[[], None],
        skips: Mapping[str, Callable[[int], bool]] | None = None,
    ) -> None:
        self._store, self._app, self._now_ms, self._poll_ms = store, app, now_ms, poll_ms
        self._clock, self._publish, self._wake = clock, publish, wake
        self._skips = skips or {}
        self._trouble = False
        self._unanswered: list[Fire] = []
        """Fires whose answer was lost: asked again, so that nothing that happened stays untold."""
        self._unusable: set[tuple[str, str]] = set()

    async def serve(self) -> None:
        while True:
            try:
                wait_ms = await self.fire_due()
                self._trouble = False
                if wait_ms > 0:
                    await self._store.wait(min(wait_ms, self._poll_ms))
            except StoreUnavailable as error:
                if not self._trouble:
                    self._publish(StoreTrouble(what="firing schedules", error=str(error)))
                self._trouble = True
                await self._clock.sleep(_RETRY_S)

    async def fire_due(self) -> int:
        """Fire everything that is due now. Returns in how many milliseconds the next slot is, at most one poll.

        Raises StoreUnavailable; what had been fired by then is told at the next call."""
        if self._unanswered:
            await self._fire(self._unanswered, await self._now_ms())
        records = [record for record in await self._store.all() if is_live(record)]
        now = await self._now_ms()
        fires, next_ms = list[Fire](), now + self._poll_ms
        for record in records:
            try:
                if lies_in_a_wrong_future(record, now):
                    fires.append(self._re_anchored(record, now))
                    continue
                due, fires_at = find_due(record, now), fire_time_ms(record)
            except CronError as error:
                self._tell_unusable(record, error)
                continue
            if due is not None:
                fires.append(fire_of(record, self._without_skipped(record, due), self._app))
            elif fires_at is not None:
                next_ms = min(next_ms, fires_at)
        for start in range(0, len(fires), _BATCH):
            await self._fire(fires[start : start + _BATCH], now)
        return 0 if fires else max(next_ms - now, 1)

    def _without_skipped(self, record: ScheduleRecord, due: Due) -> Due:
        skips = self._skips.get(record.name)
        if skips is None:
            return due
        try:
            return without_skipped(record, due, skips)
        except Exception as error:  # noqa: BLE001 - the user's function; a run too many is better than none
            told = f"skip_on failed, and its slot is run: {type(error).__name__}: {error}"
            self._publish(ScheduleFault(schedule=record.name, error=told))
            return due

    def _re_anchored(self, record: ScheduleRecord, now: int) -> Fire:
        """A fire that runs nothing and brings the schedule back from a future that a wrong clock had put it into."""
        assert record.next_due_ms is not None
        reason = "the store's clock was ahead when it was computed; the schedule goes on from now"
        self._publish(ScheduleSkipped(schedule=record.name, slot_ms=record.next_due_ms, reason=reason))
        following = record.timing.next_after(now)
        return Fire(schedule=record.name, slot_ms=record.next_due_ms, next_due_ms=following, job=None)

    async def _fire(self, batch: list[Fire], now: int) -> None:
        self._unanswered = batch
        answers = await self._store.fire(batch)
        self._unanswered = []
        self._tell(batch, answers, now)

    def _tell_unusable(self, record: ScheduleRecord, error: CronError) -> None:
        """Once for each definition: another process, with newer zones say, may be able to fire it."""
        if (record.name, record.fingerprint) not in self._unusable:
            self._unusable.add((record.name, record.fingerprint))
            self._publish(ScheduleUnusable(schedule=record.name, error=str(error)))

    def _tell(self, fires: Sequence[Fire], answers: Sequence[Fired], now: int) -> None:
        for fire, answer in zip(fires, answers, strict=True):
            if answer.kind == "lost":
                continue
            slot = fire.ran_slot_ms
            if fire.missed:
                self._publish(ScheduleMissed(schedule=fire.schedule, slot_ms=fire.slot_ms, count=fire.missed))
            if answer.kind == "skipped":
                running = f"its run {answer.running_job_id} is not finished"
                reason = running if fire.job is not None else "skip_on leaves out its date"
                self._publish(ScheduleSkipped(schedule=fire.schedule, slot_ms=slot, reason=reason))
            elif answer.kind == "fired" and fire.job is not None:
                self._publish(
                    ScheduleFired(schedule=fire.schedule, slot_ms=slot, late_ms=max(now - slot, 0), job_id=fire.job.id)
                )
                self._wake()


def anchored(record: ScheduleRecord, now_ms: int) -> ScheduleRecord:
    """A newly defined schedule with its first due slot, from now."""
    record.next_due_ms = record.timing.next_after(now_ms)
    return record
