"""A ring of hashes: which of a pool's places a key belongs to, so that few keys move when places come and go.

Consistent hashing as in Karger et al., "Consistent Hashing and Random Trees" (1997): each place owns many points on the
ring, and a key belongs to the place of the first point after its own hash. A place that comes takes its share from all
others; one that goes leaves its share to all others; every other key stays where it is. A pure value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Final

_POINTS: Final = 160
"""Of each place: shares then differ by about a twelfth (1/sqrt(160))."""

Point = tuple[int, int]
"""Hash and place."""


class Ring:
    """`places` are numbers. The same places and key give the same answer in every process and on every machine."""

    def __init__(self, places: Collection[int] = ()) -> None:
        self._points: Mapping[int, list[Point]] = {place: _points(place) for place in places}
        self._lay_out()

    def _lay_out(self) -> None:
        laid_out = sorted(point for points in self._points.values() for point in points)
        self._hashes = [point[0] for point in laid_out]
        self._owners = [point[1] for point in laid_out]

    @property
    def places(self) -> Collection[int]:
        return self._points.keys()

    def with_places(self, places: Collection[int]) -> Ring:
        """A ring of these places instead."""
        ring = Ring()
        ring._points = {place: self._points.get(place) or _points(place) for place in places}
        ring._lay_out()
        return ring

    def place_of(self, key: str) -> int | None:
        """The place of a key; None when there are no places."""
        if not self._hashes:
            return None
        at = bisect_right(self._hashes, _hash(key))
        return self._owners[at % len(self._owners)]


def _points(place: int) -> list[Point]:
    return [(_hash(f"place {place} point {number}"), place) for number in range(_POINTS)]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
