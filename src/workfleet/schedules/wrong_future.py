"""Schedules that a wrong clock has put into the future, where nobody would ever be handed them: found page by page."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.model.cron import CronError
from workfleet.model.handout import Hold
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.schedules import ScheduleStore

from .due import fire_time_ms, is_live, lies_in_a_wrong_future

_PAGE = 100
_SOON_MS = 100
_LONGEST_HOLD_MS = 180_000
"""Longer than any hold but for a jitter, by more than clocks differ."""


class WrongFuture:
    """Goes through all schedules: at once when it begins and when a clock was set back, else a page each poll."""

    def __init__(
        self,
        store: ScheduleStore,
        unusable: Callable[[ScheduleRecord, CronError], None],
        expect: Callable[[int], None],
    ) -> None:
        self._store, self._unusable, self._expect = store, unusable, expect
        self._after, self._soon = "", True
        self.next_ms = 0
        """When the next page is looked through, or at the next occasion after that."""

    def begin(self) -> None:
        """Go through all of them now."""
        self._after, self._soon, self.next_ms = "", True, 0

    def wakes_ms(self, poll_at_ms: int) -> int:
        """When somebody has to wake for the next page: not before the poll, unless it is urgent."""
        return self.next_ms if self._soon else poll_at_ms

    async def found(self, now_ms: int, poll_ms: int) -> list[ScheduleRecord]:
        """Look through a page: those that stand still. Wrong holds are ended."""
        page, self._after = await self._store.page(self._after, _PAGE)
        self._soon = self._soon and self._after != ""
        self.next_ms = now_ms + (_SOON_MS if self._soon else poll_ms)
        wrong, holds = list[ScheduleRecord](), list[Hold]()
        for record in page:
            if not is_live(record):
                continue
            try:
                if lies_in_a_wrong_future(record, now_ms):
                    wrong.append(record)
                elif record.held_until_ms is not None and record.held_until_ms > now_ms + _LONGEST_HOLD_MS:
                    holds += _ended(record, record.held_until_ms)
            except CronError as error:
                self._unusable(record, error)
        if holds:
            await self._store.hold(holds)
            self._expect(min(hold.until_ms for hold in holds))
        return wrong


def _ended(record: ScheduleRecord, until_ms: int) -> list[Hold]:
    fires_ms = fire_time_ms(record)
    if record.next_due_ms is None or fires_ms is None or until_ms <= fires_ms:
        return []
    return [Hold(record.name, record.next_due_ms, fires_ms)]
