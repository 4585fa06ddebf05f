"""Whether and when a dead child is replaced. A pure decision over the times of death.

A single death is healed at once. Deaths in a row without one completed call between them are a crash loop: each waits
longer, and after too many the pool is given up. Deaths that the pool caused (timeout, memory, recycling) are not told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from workfleet.pools.options import RestartPolicy


class Restarts:
    """The deaths of one pool since its last completed call. Times in seconds."""

    def __init__(self, policy: RestartPolicy, draw: Callable[[], float]) -> None:
        self._policy = policy
        self._draw = draw
        self._deaths: deque[tuple[float, int]] = deque()

    def __len__(self) -> int:
        return len(self._deaths)

    @property
    def enabled(self) -> bool:
        return self._policy.enabled

    def call_completed(self) -> None:
        if self._deaths:
            self._deaths.clear()

    def died(self, slot: int, *, started: float, now: float, size: int) -> float | None:
        """How many seconds to wait before the child of this slot is started anew; None: not any more."""
        policy = self._policy
        if not policy.enabled:
            return None
        while self._deaths and self._deaths[0][0] <= now - policy.window_ms / 1000:
            self._deaths.popleft()
        self._deaths.append((now, slot))
        if len(self._deaths) > policy.max_restarts * max(size, 1):
            return None
        spacing = max(started + policy.delay_ms / 1000 - now, 0.0)
        in_a_row = sum(1 for _, dead in self._deaths if dead == slot)
        if in_a_row == 1:
            return spacing
        return max(spacing, policy.backoff.delay_ms(in_a_row - 1, self._draw()) / 1000)
