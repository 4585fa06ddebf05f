"""Whether and when a dead child is replaced. A pure decision over the times of death.

A single death is healed at once. A place whose children die one after another without completing a call waits longer
each time; when the whole pool completes none and too many die, it is given up. Deaths that the pool caused (timeout,
memory, recycling, the death of a sibling) are not told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from workfleet.pools.options import RestartPolicy


class Restarts:
    """The deaths of one pool. Times in seconds of a monotonic clock.

    Counts of the pool, which end in giving up: all deaths within the window since any call was completed; and, where
    starting a child or waiting for the next start takes so long that the window never holds enough of them, the deaths
    since then of children that did not live for a whole window. A place's: its deaths in a row, since a call was
    completed there or a child lived there for a whole window; it makes the wait.
    `together` is for a pool whose children are replaced all at once: it counts as one place.
    """

    def __init__(self, policy: RestartPolicy, draw: Callable[[], float], *, together: bool = False) -> None:
        self._policy = policy
        self._draw = draw
        self._together = together
        self._deaths: deque[float] = deque()
        self._short_lives = 0
        self._in_a_row: dict[int, int] = {}

    def __len__(self) -> int:
        return max(len(self._deaths), self._short_lives)

    @property
    def enabled(self) -> bool:
        return self._policy.enabled

    def call_completed(self, slot: int) -> None:
        if self._short_lives:
            self._short_lives = 0
        if self._deaths:
            self._deaths.clear()
        if self._in_a_row:
            self._in_a_row.pop(self._place(slot), None)

    def forget(self) -> None:
        """Begins anew, as if none had died."""
        self._deaths.clear()
        self._short_lives = 0
        self._in_a_row.clear()

    def died(self, slot: int, *, started: float, now: float, size: int, ready: bool = True) -> float | None:
        """How many seconds to wait before the child of this slot is started anew; None: not any more. `ready`: it had
        become so."""
        policy, window = self._policy, self._policy.window_ms / 1000
        if not policy.enabled:
            return None
        while self._deaths and self._deaths[0] <= now - window:
            self._deaths.popleft()
        self._deaths.append(now)
        lived = ready and now - started >= window
        self._short_lives = 0 if lived else self._short_lives + 1
        if len(self) > policy.max_restarts * (1 if self._together else max(size, 1)):
            return None
        place = self._place(slot)
        self._in_a_row[place] = 1 if lived else self._in_a_row.get(place, 0) + 1
        spacing = max(started + policy.delay_ms / 1000 - now, 0.0)
        if self._in_a_row[place] == 1:
            return spacing
        return max(spacing, policy.backoff.delay_ms(self._in_a_row[place] - 1, self._draw()) / 1000)

    def _place(self, slot: int) -> int:
        return 0 if self._together else slot
