"""What several processes have measured, added up: the workers of one machine as one. Must not know how they tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from workfleet.ports.metrics import LabelSet, Sample

Key: TypeAlias = tuple[str, LabelSet]


class MergedSamples:
    """Counters and histograms of all, the dead included, so that they only grow; gauges of the living. A gauge that
    several have set has the value of the one that told last."""

    def __init__(self) -> None:
        self._past: dict[Key, Sample] = {}
        self._now: dict[str, Mapping[Key, Sample]] = {}

    def tell(self, source: str, samples: Iterable[Sample]) -> None:
        """How a process stands; it replaces what that one told before."""
        self._now.pop(source, None)
        self._now[source] = {(sample.name, sample.labels): sample for sample in samples}

    def end(self, source: str) -> None:
        """A process has ended."""
        for key, sample in self._now.pop(source, {}).items():
            if sample.kind != "gauge":
                self._past[key] = _both(self._past.get(key), sample)

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
