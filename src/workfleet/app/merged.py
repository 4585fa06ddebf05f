"""The schedules of the code, brought into the store at a start, and what became of them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.stores import Store
from workfleet.schedules.scheduler import anchored

from .definitions import Definition


@dataclass(frozen=True)
class MergedSchedules:
    """The fleet's schedules that this code defines. Those of one process are nowhere but in it."""

    records: Sequence[ScheduleRecord]
    """As they are in the store now: paused or not, with their next slot."""
    orphaned: Sequence[str]
    """Names of those that are stored though no code defines them any more."""
    at_ms: int
    """The store's time."""

    @classmethod
    async def of(cls, store: Store, definitions: Sequence[Definition]) -> Self:
        """Merge them. Raises `StoreUnavailable`."""
        now = await store.now_ms()
        shared = [anchored(each.record, now) for each in definitions if not each.per_process]
        orphaned = await store.schedules.merge(shared)
        found = await store.schedules.get([record.name for record in shared])
        return cls([record for record in found if record is not None], orphaned, now)
