"""A guard that shares its state says once that the store is away, and judges by its own until it is back."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, StoreTrouble


class Outage:
    """Of one guard."""

    def __init__(self, what: str, publish: Callable[[Event], None]) -> None:
        self._what, self._publish = what, publish
        self._lasts = False

    def began(self, error: StoreUnavailable) -> None:
        """The store did not answer."""
        if not self._lasts:
            self._lasts = True
            self._publish(StoreTrouble(what=self._what, error=str(error)))

    def over(self) -> None:
        """It did."""
        self._lasts = False
