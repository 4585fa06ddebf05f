"""What user code is given as `Metrics`: measuring, and reading back what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from workfleet.errors import UsageError
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.ports.clock import Clock

from .catalogue import PREFIX
from .model import Kind, Merge, MetricQuery, MetricSeries, Sample
from .registry import MetricsRegistry
from .store import MetricStore


class Metrics:
    """Counters, gauges and histograms of this app.

    Measuring is quick, may be done from any thread and never waits for the store. Names follow Prometheus
    (`photos_resized_total`, `photo_bytes`), and labels must not take endless values: series are limited.
    """

    def __init__(self, registry: MetricsRegistry, store: MetricStore, clock: Clock, *, custom: bool = True) -> None:
        """With `custom` off, what is measured here goes nowhere; it is checked all the same."""
        self._store, self._clock = store, clock
        self._registry = registry
        self._sink = registry if custom else MetricsRegistry(max_series=1)

    def define(self, name: str, kind: Kind, *, buckets: Sequence[float] | None = None) -> None:
        """Fix a name's kind, and a histogram's buckets (upper bounds), before its first use.

        Raises `UsageError` when it is fixed otherwise already.
        """
        _check_ours(name)
        self._sink.define(name, kind, buckets=buckets)

    def counter(self, name: str, amount: float = 1, *, labels: Mapping[str, str] | None = None) -> None:
        """Count something that only grows. Raises `UsageError` for a negative amount or a name of another kind."""
        _check_ours(name)
        self._sink.counter(name, amount, labels=labels)

    def gauge(self, name: str, value: float, *, labels: Mapping[str, str] | None = None) -> None:
        """Say what a value is now. Raises `UsageError` for a name of another kind."""
        _check_ours(name)
        self._sink.gauge(name, value, labels=labels)

    def histogram(self, name: str, value: float, *, labels: Mapping[str, str] | None = None) -> None:
        """Add one observation to a distribution. Raises `UsageError` for a name of another kind."""
        _check_ours(name)
        self._sink.histogram(name, value, labels=labels)

    async def query(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        since: DurationLike | datetime = "1h",
        until: datetime | None = None,
        step: DurationLike | None = None,
        by: Sequence[str] | None = None,
        merge: Merge | None = None,
        quantile: float | None = None,
    ) -> list[MetricSeries]:
        """What was measured, as the store has it: what was counted since the last flush is not in it yet.

        `since` is an age or an instant, `until` an instant (None: now). `step` cuts the time into points (None: one),
        `by` merges series that agree in these labels (None: none are merged): gauges to their sum, or as `merge` says.
        `quantile` is one more that a histogram's points have, such as 0.999.
        Raises `UsageError` for a senseless range or step, `StoreUnavailable` when the store does not answer.
        """
        to_ms = self._clock.now_ms() + 1 if until is None else _instant_ms(until)
        try:
            from_ms = _instant_ms(since) if isinstance(since, datetime) else to_ms - duration_ms(since)
            step_ms = None if step is None else duration_ms(step)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return await self._store.query(
            MetricQuery(
                name=name,
                labels=dict(labels or {}),
                from_ms=from_ms,
                to_ms=to_ms,
                step_ms=step_ms,
                by=None if by is None else tuple(by),
                merge=merge,
                quantile=quantile,
            )
        )

    async def names(self) -> list[str]:
        """The names of what the store keeps, in order. Raises `StoreUnavailable`."""
        return sorted({each.name for each in await self._store.series()})

    def snapshot(self) -> list[Sample]:
        """Every series of this process as it stands now, since the process started."""
        return self._registry.snapshot()


def _check_ours(name: str) -> None:
    if name.startswith(PREFIX):
        raise UsageError(f"metric {name}: names that begin with {PREFIX} are workfleet's own: take another")


def _instant_ms(instant: datetime) -> int:
    if instant.tzinfo is None:
        raise UsageError(f"{instant.isoformat()} has no time zone: use an aware datetime")
    return round(instant.timestamp() * 1000)
