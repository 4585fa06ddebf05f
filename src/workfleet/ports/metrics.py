"""What parts need to count and measure: a sink for metrics, and facts about the own process. Knows no store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

Labels: TypeAlias = Mapping[str, str]
"""Label values by name. They are part of a series' identity, so they must not take endless values."""


class Metrics(Protocol):
    """Where measurements go. A name has one kind for good; using it as another raises `UsageError`.

    Names follow Prometheus: `photos_resized_total`, `photo_bytes`, units in the name, seconds and bytes.
    """

    def counter(self, name: str, amount: float = 1, *, labels: Labels | None = None) -> None:
        """Count something that only grows. A negative amount raises `UsageError`."""
        ...

    def gauge(self, name: str, value: float, *, labels: Labels | None = None) -> None:
        """Say what a value is now."""
        ...

    def histogram(self, name: str, value: float, *, labels: Labels | None = None) -> None:
        """Add one observation to a distribution."""
        ...


class ProcessFacts(Struct, frozen=True, kw_only=True):
    """What a process uses at this moment. `open_fds` is None where the platform does not tell."""

    rss_bytes: int
    cpu_seconds: float
    """User and system time since its start."""
    threads: int
    open_fds: int | None = None


ProcessReader: TypeAlias = Callable[[], ProcessFacts]
