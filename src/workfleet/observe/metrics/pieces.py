"""How the rows of a query are read out of a database: in pieces, so that no step is long, whoever writes has a turn in
between, and memory stays small. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from .aggregate import reads_from_ms
from .model import Kind, LabelSet, MetricQuery, MetricRow

_SERIES_MS = 750_000_000
"""What a piece has of all its series together: 75,000 rows where each has one every ten seconds, 3,000 where none
changes."""
_SHORTEST_MS = 3_600_000


class Found(Struct, frozen=True, kw_only=True):
    """A series of a database, by its number."""

    name: str
    kind: Kind
    labels: LabelSet
    bounds: tuple[float, ...]

    def row(self, at_ms: int, value: float, count: int = 0, buckets: Iterable[int] = ()) -> MetricRow:
        return MetricRow(
            name=self.name,
            kind=self.kind,
            labels=self.labels,
            at_ms=at_ms,
            value=value,
            count=count,
            bounds=self.bounds,
            buckets=tuple(buckets),
        )


class Piece(Struct, frozen=True, kw_only=True):
    """Series of one kind, from one instant to before another. What counts increases may be added up by steps."""

    kind: Kind
    found: Mapping[int, Found]
    from_ms: int
    to_ms: int
    step_ms: int


def pieces(found: Mapping[int, Found], query: MetricQuery, span: tuple[int | None, int | None]) -> Iterator[Piece]:
    """All that a query needs, of each kind in order of time. `span` has the instants of the first and of the last row
    of these series; None: they have none."""
    first_ms, last_ms = span
    if first_ms is None or last_ms is None:
        return
    end = min(query.to_ms, last_ms + 1)
    for kind in sorted({each.kind for each in found.values()}):
        of_kind = {number: each for number, each in found.items() if each.kind == kind}
        length = max(_SERIES_MS // len(of_kind), _SHORTEST_MS)
        for start in range(max(reads_from_ms(kind, query), first_ms), end, length):
            yield Piece(
                kind=kind,
                found=of_kind,
                from_ms=start,
                to_ms=min(start + length, end),
                step_ms=query.step_ms or query.to_ms,
            )
