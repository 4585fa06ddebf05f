"""What several processes have measured, added up: the workers of one machine as one. Must not know how they tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from workfleet.ports.metrics import LabelSet, Sample

from .registry import DROPPED

Key: TypeAlias = tuple[str, LabelSet]
_DROPPED_KEY: Key = (DROPPED, (("reason", "series_limit"),))


class MergedSamples:
    """Counters and histograms of all, the dead included, so that they only grow; gauges of the living. A gauge that
    several have set has the value of the one that told last. Of the dead, at most `limit` series are remembered, and
    those that are not are counted: each worker may have had other labels than the one before."""

    def __init__(self, *, limit: int = 50_000) -> None:
        self._limit = limit
        self._past: dict[Key, Sample] = {}
        self._now: dict[str, Mapping[Key, Sample]] = {}
        self._told: dict[str, Iterable[Sample]] = {}

    def tell(self, source: str, samples: Iterable[Sample]) -> None:
        """How a process stands; it replaces what that one told before. To tell the same once more changes nothing."""
        if self._told.get(source) is samples:
            return
        self._told[source] = samples
        self._now.pop(source, None)
        self._now[source] = {(sample.name, sample.labels): sample for sample in samples}

    def withhold_gauges(self, source: str) -> None:
        """A process has fallen silent: how it stands nobody knows until it tells again. What it has counted stays."""
        told = self._now.get(source, {})
        self._now[source] = {key: sample for key, sample in told.items() if sample.kind != "gauge"}

    def end(self, source: str) -> None:
        """A process has ended."""
        self._told.pop(source, None)
        for key, sample in self._now.pop(source, {}).items():
            if sample.kind == "gauge":
                continue
            if key in self._past or len(self._past) < self._limit or key == _DROPPED_KEY:
                self._past[key] = _both(self._past.get(key), sample)
            else:
                name, labels = _DROPPED_KEY
                lost = Sample(name=name, kind="counter", labels=labels, value=1)
                self._past[_DROPPED_KEY] = _both(self._past.get(_DROPPED_KEY), lost)

    def samples(self) -> list[Sample]:
        """All of it, by name and labels."""
        found = dict(self._past)
        for told in self._now.values():
            for key, sample in told.items():
                found[key] = _both(found.get(key), sample)
        return [found[key] for key in sorted(found)]


def _both(old: Sample | None, new: Sample) -> Sample:
    # Processes of one release and one code: another kind or other bounds come only from code that a reload has changed.
    if old is None or new.kind == "gauge" or (old.kind, old.bounds) != (new.kind, new.bounds):
        return new
    return Sample(
        name=new.name,
        kind=new.kind,
        labels=new.labels,
        value=old.value + new.value,
        count=old.count + new.count,
        bounds=new.bounds,
        buckets=tuple(mine + other for mine, other in zip(old.buckets, new.buckets, strict=True)),
    )
