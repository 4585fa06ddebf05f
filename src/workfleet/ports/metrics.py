"""What parts need to count and measure: a sink for metrics, what was measured as values, and facts about the process,
the machine and the fleet. Knows no store. Instants are integer milliseconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

Labels: TypeAlias = Mapping[str, str]
"""Label values by name. They are part of a series' identity, so they must not take endless values."""

Kind = Literal["counter", "gauge", "histogram"]
LabelSet: TypeAlias = tuple[tuple[str, str], ...]
"""Labels as the identity of a series: pairs, sorted by name."""


class MetricRow(Struct, frozen=True, kw_only=True):
    """What one series did since the row before it: a counter's or histogram's increase, a gauge's value.

    `value` is the increase of a counter, the value of a gauge, the sum of a histogram's new observations, whose number
    is `count`. `buckets[i]` counts those in (bounds[i-1], bounds[i]]; the last one those above all bounds.
    """

    name: str
    kind: Kind
    labels: LabelSet
    at_ms: int
    value: float
    count: int = 0
    bounds: tuple[float, ...] = ()
    buckets: tuple[int, ...] = ()


class Sample(Struct, frozen=True, kw_only=True):
    """A series as it stands in a process: like a row, but since the start of the process."""

    name: str
    kind: Kind
    labels: LabelSet
    value: float
    count: int = 0
    bounds: tuple[float, ...] = ()
    buckets: tuple[int, ...] = ()


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


class SystemFacts(Struct, frozen=True, kw_only=True):
    """What the container that a process runs in grants and uses; without a container: the machine."""

    memory_limit_bytes: int
    memory_used_bytes: int
    """What the kernel cannot simply take back."""
    cpus: float
    """Processors that may be used, perhaps a fraction."""
    cpu_seconds: float
    """Processor time since its start."""
    throttled_seconds: float | None = None
    """How long it had to stand still because of its quota; None: it has none."""


SystemReader: TypeAlias = Callable[[], SystemFacts]


class QueueFacts(Struct, frozen=True, kw_only=True):
    """A queue of the fleet: its jobs by state, and since when its oldest ready one waits (0: none does)."""

    name: str
    jobs: Mapping[str, int]
    oldest_age_ms: int = 0
    paused: bool = False


class ScheduleFacts(Struct, frozen=True, kw_only=True):
    """A schedule of the fleet. `overdue_ms` is 0 unless it should have fired and has not, and while it waits for the
    end of its run; instants are UTC."""

    name: str
    overdue_ms: int = 0
    last_fired_ms: int | None = None
    next_slot_ms: int | None = None


class FleetFacts(Struct, frozen=True, kw_only=True):
    """What the store says of a fleet. None: nobody asked."""

    queues: tuple[QueueFacts, ...] = ()
    schedules: tuple[ScheduleFacts, ...] = ()
    workers: int | None = None
    """Those that gave a sign of life lately."""
    locks_held: int | None = None


FleetReader: TypeAlias = Callable[[], Awaitable[FleetFacts]]
"""May raise `StoreUnavailable`."""
