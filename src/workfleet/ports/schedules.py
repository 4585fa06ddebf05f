"""The part of the store seam that keeps schedules; see `stores.py` for what holds for every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from workfleet.model.handout import DueRequest, DueSchedules, Hold
from workfleet.model.schedules import Fire, Fired, ScheduleRecord


class ScheduleStore(Protocol):
    """Schedules and their fires. There may be very many: only `all` gives them all.

    A schedule is live when it is enabled, not paused and not orphaned, and has a next slot. `merge` and `all` take
    several steps, so that other calls go in between; each schedule is whole."""

    async def merge(self, defined: Iterable[ScheduleRecord]) -> list[str]:
        """Bring what the code defines into the store: new ones are added as given, changed ones (by fingerprint) are
        replaced but keep counters, last fire and `paused`; unchanged ones keep all; from-code ones that are not in
        `defined` are marked `orphaned`. Returns the names of all that are orphaned then, in order."""
        ...

    async def put(self, record: ScheduleRecord, *, replace: bool) -> bool:
        """Add a run-time schedule. An existing name is replaced (as changed in `merge`) or left alone: then False."""
        ...

    async def remove(self, name: str) -> bool:
        """Delete a schedule. Its queued jobs stay."""
        ...

    async def set_paused(self, name: str, *, paused: bool) -> bool:
        """Pause or resume; False when there is no such schedule."""
        ...

    async def all(self) -> list[ScheduleRecord]:
        """Every schedule, by name."""
        ...

    async def get(self, names: Sequence[str]) -> list[ScheduleRecord | None]:
        """The schedules of these names, None where there is none."""
        ...

    async def page(self, after: str, limit: int) -> tuple[list[ScheduleRecord], str]:
        """About `limit` schedules in an order of the store's own, and what to give as `after` for those that follow:
        "" begins, and ends. What is there all the time is on some page, perhaps on two."""
        ...

    async def claim_due(self, request: DueRequest) -> DueSchedules:
        """Hand out live schedules that are to be fired, those that fire first. Each is held (`held_until_ms`), so that
        a repeat gives others; the hold ends early when its slot is fired, or its definition changes or is resumed."""
        ...

    async def hold(self, holds: Sequence[Hold]) -> None:
        """Set until when schedules are not handed out, whoever has them. One whose next slot is another is let be."""
        ...

    async def fire(self, fires: Sequence[Fire]) -> list[Fired]:
        """Apply fires whose slot is still due, each with its job in the same atomic step; see `Fire`."""
        ...

    async def wait(self, timeout_ms: int) -> bool:
        """Wait until schedules may have changed, or the time is over (False)."""
        ...
