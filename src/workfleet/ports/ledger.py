"""The seam to the run ledger: what became of the runs of schedules, kept apart from the jobs that ran.

As for every part of a store, each call is one atomic step, may raise `StoreUnavailable`, and may then be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workfleet.model.ledger import LedgerKeep, LedgerRow


class LedgerStore(Protocol):
    """Rows by schedule. They need no schedule of that name, and stay when it is removed."""

    async def record(self, rows: Sequence[LedgerRow], keep: LedgerKeep) -> None:
        """Add rows, and delete of their schedules what `keep` does not keep, by the store's clock. A row that is there
        already is not added again, so the same rows may be given twice. With a `count` above 16 a store may delete what
        is beyond it less often, so that some more are there for a while."""
        ...

    async def history(self, schedule: str, limit: int = 100) -> list[LedgerRow]:
        """The rows of a schedule, newest first: by `at_ms`, then by id, both descending."""
        ...

    async def prune(self, age_ms: int, limit: int = 1_000) -> int:
        """Delete rows of any schedule that are older than `age_ms`, at most `limit`, the oldest first. Returns how many
        were deleted. A Redis store goes by schedules, up to `limit` of them, and deletes all that is old of each."""
        ...
