"""The loop that deletes finished jobs when their retention is over."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobState
from workfleet.ports.clock import Clock
from workfleet.ports.stores import JobStore, PruneRule

_DAY_MS = 86_400_000
_EVERY_S = 60.0
_BATCH = 1_000

RETENTION = (
    PruneRule(JobState.COMPLETED, age_ms=_DAY_MS, count=10_000),
    PruneRule(JobState.FAILED, age_ms=30 * _DAY_MS),
    PruneRule(JobState.COMPLETED, count=5, housekeeping=True),
    PruneRule(JobState.FAILED, count=5, housekeeping=True),
)


class Pruner:
    """A Service. It deletes in small steps, so that it never holds the store for long."""

    name = "pruner"

    def __init__(self, jobs: JobStore, clock: Clock, rules: Sequence[PruneRule] = RETENTION) -> None:
        self._jobs, self._clock, self._rules = jobs, clock, rules

    async def serve(self) -> None:
        while True:
            try:
                deleted = await self._jobs.prune(self._rules, _BATCH)
            except StoreUnavailable:
                deleted = 0  # whoever needs the store reports the outage
            if deleted < _BATCH:
                await self._clock.sleep(_EVERY_S)
