"""What is told of a destination that fails: once until it works again, and of one that comes and goes once a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from workfleet.events import Event, LogFailed, LogRecovered

Tell = Callable[[Event], None]
AGAIN_S: Final = 60.0
"""Troubles of a destination that come and go are told of at most so often."""


class Troubles:
    """Those of one destination. Each method returns what is to be told now."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self._name, self._monotonic = name, monotonic
        self.failing = False
        self.lost = 0
        """Lines, since it was told how many."""
        self._told = False
        self._told_at: float | None = None

    def failed(self, error: Exception) -> Event | None:
        """A line was lost."""
        self.lost += 1
        if self.failing:
            return None
        self.failing = True
        now = self._monotonic()
        self._told = self._told_at is None or now - self._told_at >= AGAIN_S
        if not self._told:
            return None
        self._told_at = now
        return LogFailed(destination=self._name, error=reason_of(error), lost=self.lost)

    def worked(self) -> Event | None:
        """A line was written."""
        if not self.failing:
            return None
        self.failing = False
        if not self._told:
            return None
        lost, self.lost = self.lost, 0
        return LogRecovered(destination=self._name, lost=lost)


def reason_of(error: Exception) -> str:
    """An error in a few words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
