"""What each name is for good: its kind, and a histogram's bounds. It has no lock: its registry does."""

from __future__ import annotations

from collections.abc import Iterable

from workfleet.errors import UsageError

from .model import DEFAULT_BUCKETS, Kind

PARTS = ("_bucket", "_sum", "_count")
"""What a histogram's lines are called, behind its name: no other metric may have such a name."""


class Names:
    """The first use of a name decides. No more than `limit` names are remembered; the others are whatever they are."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._kinds: dict[str, Kind] = {}
        self._bounds: dict[str, tuple[float, ...]] = {}

    def kind(self, name: str) -> Kind | None:
        """None: it was never used."""
        return self._kinds.get(name)

    def fix(self, name: str, kind: Kind) -> None:
        """Raises `UsageError` where it is another kind already, or would be taken for a part of a histogram."""
        known = self._kinds.get(name)
        if known == kind:
            return
        if known is not None:
            raise UsageError(f"metric {name} is a {known}, not a {kind}")
        for other, mine in _pairs(name, kind):
            if other in self._kinds and (mine or self._kinds[other] == "histogram"):
                whole, part = (name, other) if mine else (other, name)
                raise UsageError(f"metric {part} has the name of a part of the histogram {whole}: take another")
        if len(self._kinds) < self._limit:
            self._kinds[name] = kind

    def fix_bounds(self, name: str, bounds: tuple[float, ...]) -> None:
        """The bounds of a histogram whose kind is fixed. Raises `UsageError` where they are others already."""
        if name not in self._kinds:
            return
        known = self._bounds.setdefault(name, bounds)
        if known != bounds:
            raise UsageError(f"metric {name} has other buckets already: {known}")

    def bounds(self, name: str) -> tuple[float, ...]:
        """Those of a histogram, which by this are fixed."""
        if name not in self._kinds:
            return DEFAULT_BUCKETS
        return self._bounds.setdefault(name, DEFAULT_BUCKETS)


def _pairs(name: str, kind: Kind) -> Iterable[tuple[str, bool]]:
    """The names that this one could be confused with, and whether it is this one that would be the histogram."""
    if kind == "histogram":
        yield from ((f"{name}{part}", True) for part in PARTS)
    yield from ((name.removesuffix(part), False) for part in PARTS if name.endswith(part))
