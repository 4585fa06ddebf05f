"""What this process was handed out: due schedules, not many, taken a moment ahead so that each is fired on time.

Nobody else is handed them meanwhile. That saves work and decides nothing: a fire is applied once, whoever sends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from workfleet.model.cron import CronError
from workfleet.model.handout import DueRequest, Hold
from workfleet.model.schedules import Fire, Fired, ScheduleRecord
from workfleet.ports.schedules import ScheduleStore

from .due import fire_time_ms, is_live

AHEAD_MS = 500
"""How far ahead schedules are taken."""
HOLD_MS = 1_000
"""About so late is a slot fired by another process when the one that had it dies."""
LEAD_MS = 250
"""How long before a slot the store is asked at the latest; everything until twice as far comes with it."""
BUSY_MS = AHEAD_MS + LEAD_MS
"""For so long a schedule is held whose fire waits for the end of a run. It is tried again a lead before that."""
UNUSABLE_MS = 60_000
"""After so long a schedule that this process cannot fire is handed out again, to one that can perhaps."""
_LIMIT, _MOST = 100, 400


class Handed:
    """The schedules, and when to ask for more. `unusable` is told of each that this process cannot fire."""

    def __init__(self, store: ScheduleStore, unusable: Callable[[ScheduleRecord, CronError], None]) -> None:
        self._store, self._unusable = store, unusable
        self._records: dict[str, tuple[int, ScheduleRecord]] = {}
        self._order: list[tuple[int, str]] = []
        self.look_ms = 0
        """When the store is to be asked."""

    def forget(self) -> None:
        """Begin anew: the clock was set back."""
        self._records, self._order, self.look_ms = {}, [], 0

    def next_ms(self) -> int:
        """When there is something to do: to fire one, or to ask."""
        first = self._first_ms()
        return self.look_ms if first is None else min(first, self.look_ms)

    def due(self, now_ms: int) -> list[ScheduleRecord]:
        """Take out those to fire now, at most a batch, in their order."""
        found = list[ScheduleRecord]()
        while len(found) < _LIMIT and (first := self._first_ms()) is not None and first <= now_ms:
            found.append(self._records.pop(heappop(self._order)[1])[1])
        return found

    async def look(self, now_ms: int, poll_ms: int) -> None:
        """Ask the store for what is due soon."""
        room = min(_MOST - len(self._records), _LIMIT)
        if not room:
            self.look_ms = self._first_ms() or now_ms
            return
        handed = await self._store.claim_due(DueRequest(room, AHEAD_MS, HOLD_MS))
        self.look_ms = handed.now_ms + poll_ms
        if handed.next_ms is not None:
            # What is due within the time ahead and was not handed out now is more than fits.
            soonest = handed.now_ms if handed.records else handed.now_ms + LEAD_MS
            self.look_ms = min(self.look_ms, max(handed.next_ms - LEAD_MS, soonest))
        holds = [hold for record in handed.records if (hold := self._taken(record, handed.now_ms)) is not None]
        if holds:
            await self._store.hold(holds)
            self.expect(min(hold.until_ms for hold in holds))

    async def refresh(self) -> None:
        """Definitions were changed: keep what is still so, and ask for the rest."""
        self.look_ms = 0
        here = list(self._records.values())
        if not here:
            return
        there = await self._store.get([record.name for _, record in here])
        self._records, self._order = {}, []
        for (fires_ms, old), new in zip(here, there, strict=True):
            if new is not None and is_live(new) and _slot(new) == _slot(old):
                self._keep(new, fires_ms)

    async def answered(self, fires: Sequence[Fire], answers: Sequence[Fired], now_ms: int) -> None:
        """Fires were applied, or have to wait for the end of a run."""
        holds = list[Hold]()
        for fire, answer in zip(fires, answers, strict=True):
            at_ms = fire.held_until_ms or fire.next_due_ms
            if answer.kind == "busy":
                at_ms = now_ms + BUSY_MS
                holds.append(Hold(fire.schedule, fire.slot_ms, at_ms))
            elif answer.kind == "lost":
                # Whoever was faster may be gone before the next slot.
                at_ms = now_ms + HOLD_MS
            if at_ms is not None:
                self.expect(at_ms)
        if holds:
            await self._store.hold(holds)

    def expect(self, at_ms: int) -> None:
        """One is to be handed out for that instant."""
        self.look_ms = min(self.look_ms, at_ms - LEAD_MS)

    async def give_back(self, records: Sequence[ScheduleRecord], now_ms: int) -> None:
        """Those that were taken out and that this process cannot fire."""
        holds = [_for_another(record, now_ms) for record in records]
        if holds:
            await self._store.hold(holds)

    def _taken(self, record: ScheduleRecord, now_ms: int) -> Hold | None:
        """Take a schedule; or how long to hold it, because it is not to be fired soon, or not by this process."""
        try:
            fires_ms = fire_time_ms(record) if is_live(record) else None
        except CronError as error:
            self._unusable(record, error)
            fires_ms = None
        if fires_ms is None:
            return _for_another(record, now_ms)
        if fires_ms > now_ms + AHEAD_MS and record.next_due_ms is not None:
            return Hold(record.name, record.next_due_ms, fires_ms)
        self._keep(record, fires_ms)
        return None

    def _keep(self, record: ScheduleRecord, fires_ms: int) -> None:
        self._records[record.name] = fires_ms, record
        heappush(self._order, (fires_ms, record.name))

    def _first_ms(self) -> int | None:
        while self._order and self._records.get(self._order[0][1], (None,))[0] != self._order[0][0]:
            heappop(self._order)
        return self._order[0][0] if self._order else None


def _slot(record: ScheduleRecord) -> tuple[str, int | None]:
    return record.fingerprint, record.next_due_ms


def _for_another(record: ScheduleRecord, now_ms: int) -> Hold:
    assert record.next_due_ms is not None, "only schedules with a slot are handed out"
    return Hold(record.name, record.next_due_ms, now_ms + UNUSABLE_MS)
