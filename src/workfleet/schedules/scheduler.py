"""The loop that fires what is due. Every process runs it; the store lets one of them have each slot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import structs

from workfleet.errors import StoreUnavailable
from workfleet.events import (
    Event,
    ScheduleFault,
    ScheduleUnusable,
    StoreTrouble,
)
from workfleet.model.cron import CronError
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.ports.clock import Clock
from workfleet.ports.schedules import ScheduleStore

from .due import Due, find_due, fire_of, fire_time_ms, without_skipped
from .handed import Handed
from .telling import told
from .wrong_future import WrongFuture

_RETRY_S = 1.0
_STEP_MS = 1_000
"""A clock that goes back by more was set."""


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
        self._handed = Handed(store, self._tell_unusable)
        self._wrong_future = WrongFuture(store, self._tell_unusable, self._handed.expect)
        self._seen_ms = 0
        """The store's time when this process last looked at it."""
        self._changed = False
        """Whether definitions have changed since."""
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
                    self._changed |= await self._store.wait(min(wait_ms, self._poll_ms))
            except StoreUnavailable as error:
                if not self._trouble:
                    self._publish(StoreTrouble(what="firing schedules", error=str(error)))
                self._trouble = True
                await self._clock.sleep(_RETRY_S)

    async def fire_due(self) -> int:
        """Fire everything that is due now. Returns in how many milliseconds there is more to do, at most one poll.

        Raises StoreUnavailable; what had been fired by then is told at the next call."""
        now = await self._now_ms()
        if self._unanswered:
            await self._fire(self._unanswered, now)
        if now < self._seen_ms - _STEP_MS:
            self._handed.forget()
            self._wrong_future.begin()
        self._changed |= await self._store.wait(0)
        if self._changed:
            await self._handed.refresh()
            self._changed = False
        fired = False
        while True:
            self._seen_ms = now
            if due := self._handed.due(now):
                fires, refused = self._fires(due, now)
                fired |= await self._fire(fires, now)
                await self._handed.give_back(refused, now)
            elif now >= self._handed.look_ms:
                await self._handed.look(now, self._poll_ms)
            elif now >= self._wrong_future.next_ms:
                wrong = await self._wrong_future.found(now, self._poll_ms)
                fired |= await self._fire([self._re_anchored(record, now) for record in wrong], now)
            else:
                break
            now = await self._now_ms()
        next_ms = min(self._handed.next_ms(), self._wrong_future.wakes_ms(now + self._poll_ms))
        return 0 if fired else max(next_ms - now, 1)

    def _fires(self, records: Sequence[ScheduleRecord], now: int) -> tuple[list[Fire], list[ScheduleRecord]]:
        """The fires of what is due, and what this process cannot fire."""
        fires, refused = list[Fire](), list[ScheduleRecord]()
        for record in records:
            try:
                due = find_due(record, now)
                assert due is not None, "its time has come"
                fire = fire_of(record, self._without_skipped(record, due), self._app)
                fires.append(_held_for_jitter(record, fire))
            except CronError as error:
                self._tell_unusable(record, error)
                refused.append(record)
        return fires, refused

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
        return Fire(
            schedule=record.name,
            slot_ms=record.next_due_ms,
            next_due_ms=record.timing.next_after(now),
            job=None,
            skipped=1,
            reasons={"skipped": reason},
        )

    async def _fire(self, batch: list[Fire], now: int) -> bool:
        """Returns whether there was something to fire."""
        if not batch:
            return False
        self._unanswered = batch
        answers = await self._store.fire(batch)
        self._unanswered = []
        self._tell(batch, answers, now)
        await self._handed.answered(batch, answers, now)
        return True

    def _tell_unusable(self, record: ScheduleRecord, error: CronError) -> None:
        """Once for each definition: another process, with newer zones say, may be able to fire it."""
        if (record.name, record.fingerprint) not in self._unusable:
            self._unusable.add((record.name, record.fingerprint))
            self._publish(ScheduleUnusable(schedule=record.name, error=str(error)))

    def _tell(self, fires: Sequence[Fire], answers: Sequence[Fired], now: int) -> None:
        for fire, answer in zip(fires, answers, strict=True):
            if answer.kind not in ("lost", "busy"):
                for event in told(fire, answer, now):
                    self._publish(event)
            if answer.kind == "fired":
                self._wake()


def anchored(record: ScheduleRecord, now_ms: int) -> ScheduleRecord:
    """A newly defined schedule with its first due slot, from now."""
    record.next_due_ms = record.timing.next_after(now_ms)
    record.held_until_ms = fire_time_ms(record) if record.jitter_ms else None
    return record


def _held_for_jitter(record: ScheduleRecord, fire: Fire) -> Fire:
    """The fire, with when the next slot is fired where that is later."""
    if not record.jitter_ms or fire.next_due_ms is None:
        return fire
    following = structs.replace(record, next_due_ms=fire.next_due_ms)
    return structs.replace(fire, held_until_ms=fire_time_ms(following))
