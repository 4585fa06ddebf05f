"""Where a worker notes which claims it holds, so that somebody whom user code cannot block renews them."""

from __future__ import annotations

from typing import Protocol

from workfleet.model.jobs import Claim


class ClaimBoard(Protocol):
    """A worker's notes of its live claims. Writing one takes about a microsecond."""

    def put(self, claim: Claim, *, deadline_ms: int = 0) -> int:
        """Note a claim and its run's deadline (0: none). Returns its slot, or -1 when the board is full."""
        ...

    def clear(self, slot: int) -> None:
        """Forget a claim. A slot of -1 does nothing."""
        ...
