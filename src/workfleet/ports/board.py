"""Where a worker notes which claims it holds, so that somebody whom user code cannot block renews them."""

from __future__ import annotations

from typing import Protocol

from workfleet.model.jobs import Claim


class ClaimBoard(Protocol):
    """A worker's notes of its live claims. Writing one takes about a microsecond."""

    def put(self, claim: Claim, *, timeout_ms: int | None = None, since_ms: int | None = None, label: str = "") -> int:
        """Note a claim, and that its run must have ended `timeout_ms` from now (None: no deadline). `since_ms` is the
        monotonic instant at which it was asked for, `label` the job's name. Returns its slot, or -1 when the board is
        full: then this process itself must renew it."""
        ...

    def ended(self, slot: int) -> None:
        """The run has ended: it has no deadline any more. A slot of -1 does nothing."""
        ...

    def clear(self, slot: int) -> None:
        """Forget a claim. A slot of -1 does nothing."""
        ...
