"""The loop that deletes finished jobs, and rows of the run ledger, when their retention is over."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobState
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore, PruneRule
from workfleet.ports.ledger import LedgerStore

_DAY_MS = 86_400_000
_EVERY_S = 60.0
_LEDGER_ROUNDS = 10
"""Every so many rounds the ledger is looked at, which also cleans itself with every row."""
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

    def __init__(
        self,
        jobs: JobStore,
        clock: Clock,
        rules: Sequence[PruneRule] = RETENTION,
        *,
        ledger: LedgerStore,
        ledger_age_ms: int,
    ) -> None:
        """`ledger_age_ms` is how long the ledger's rows are kept."""
        self._jobs, self._clock, self._rules = jobs, clock, rules
        self._ledger, self._ledger_age_ms = ledger, ledger_age_ms

    async def serve(self) -> None:
        rounds = 0
        while True:
            try:
                deleted = await self._jobs.prune(self._rules, _BATCH)
            except StoreUnavailable:
                deleted = 0  # whoever needs the store reports the outage
            if deleted < _BATCH:
                if rounds % _LEDGER_ROUNDS == 0:
                    await self._prune_ledger()
                rounds += 1
                await self._clock.sleep(_EVERY_S)

    async def _prune_ledger(self) -> None:
        try:
            while await self._ledger.prune(self._ledger_age_ms, _BATCH) >= _BATCH:
                pass
        except StoreUnavailable:
            pass  # as above: and a ledger that is broken is nothing to jobs
