"""What is read out of a metric store's SQLite file. Nothing here changes anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from operator import add

import apsw
import msgspec

from .aggregate import matches
from .model import LabelSet, MetricQuery, MetricRow, StoredSeries
from .pieces import Found, Piece

_SERIES = "select id, name, kind, labels, bounds from wf_metric_series where app = ?"
_ENDS = """
select name, kind, labels, (select max(at_ms) from wf_metric_point where series = id) from wf_metric_series
where app = ?
"""
_SPAN = """
select min(first), max(last) from (
  select
    (select min(at_ms) from wf_metric_point where series = each.value) as first,
    (select max(at_ms) from wf_metric_point where series = each.value) as last
  from json_each(?) as each
)
"""
_THESE = "from wf_metric_point where series in (select value from json_each(?)) and at_ms >= ? and at_ms < ?"
_GAUGES = f"select series, at_ms, value {_THESE} order by at_ms, rowid"
_COUNTERS = f"select series, min(at_ms), sum(value) {_THESE} group by series, at_ms - at_ms % ?"
_HISTOGRAMS = f"select series, at_ms, value, count, buckets {_THESE}"
_NEWEST = "select at_ms, value, 0 from wf_metric_point where series = ? order by at_ms desc, rowid desc limit 1"
_SUM = "select max(at_ms), sum(value), sum(count) from wf_metric_point where series = ?"
_BUCKETS = """
select sum(bucket.value) from wf_metric_point as point, json_each(point.buckets) as bucket
where point.series = ? group by bucket.key order by bucket.key
"""
_BUCKETS_OF = msgspec.json.Decoder(list[int])


def asked(connection: apsw.Connection, app: str, query: MetricQuery) -> dict[int, Found]:
    """The series that a query is about."""
    return {
        number: each for number, each in _series(connection, app, query.name).items() if matches(each.labels, query)
    }


def span(connection: apsw.Connection, found: Iterable[int]) -> tuple[int | None, int | None]:
    """The instants of the first and of the last row of these series; None: they have none."""
    first_ms, last_ms = connection.execute(_SPAN, (json.dumps(list(found)),)).get
    return first_ms, last_ms


def rows_of(connection: apsw.Connection, piece: Piece) -> Iterator[MetricRow]:
    """Gauges in order of time; what counts increases, added up by steps."""
    these = json.dumps(list(piece.found)), piece.from_ms, piece.to_ms
    if piece.kind == "gauge":
        for number, at_ms, value in connection.execute(_GAUGES, these):
            yield piece.found[number].row(at_ms, value)
    elif piece.kind == "counter":
        for number, at_ms, value in connection.execute(_COUNTERS, (*these, piece.step_ms)):
            yield piece.found[number].row(at_ms, value)
    else:
        yield from _histograms(connection, piece, these)


def _histograms(connection: apsw.Connection, piece: Piece, these: tuple[str, int, int]) -> Iterator[MetricRow]:
    """Added up here: SQLite would take longer to take the buckets apart."""
    sums: dict[tuple[int, int], tuple[int, float, int, list[int]]] = {}
    for number, at_ms, value, count, stored in connection.execute(_HISTOGRAMS, these):
        key, buckets = (number, at_ms - at_ms % piece.step_ms), _BUCKETS_OF.decode(stored)
        _, value_before, count_before, before = sums.get(key) or (0, 0.0, 0, [0] * len(buckets))
        sums[key] = at_ms, value_before + value, count_before + count, list(map(add, before, buckets))
    for (number, _), (at_ms, value, count, buckets) in sums.items():
        yield piece.found[number].row(at_ms, value, count, buckets)


def ends(connection: apsw.Connection, app: str) -> Iterator[StoredSeries]:
    """Each series of one set of bounds, with its newest instant."""
    for name, kind, labels, at_ms in connection.execute(_ENDS, (app,)):
        if at_ms is not None:
            yield StoredSeries(name=name, kind=kind, labels=_labels(labels), at_ms=at_ms)


def sums(connection: apsw.Connection, app: str) -> Iterator[MetricRow]:
    """Each series of one set of bounds, added up, all as of one moment."""
    with connection:
        for number, each in _series(connection, app).items():
            query = _NEWEST if each.kind == "gauge" else _SUM
            for at_ms, value, count in connection.execute(query, (number,)):
                if at_ms is not None:
                    buckets = connection.execute(_BUCKETS, (number,)) if each.kind == "histogram" else ()
                    yield each.row(at_ms, value, count, (int(bucket) for (bucket,) in buckets))


def _series(connection: apsw.Connection, app: str, name: str | None = None) -> dict[int, Found]:
    found = (
        connection.execute(_SERIES, (app,))
        if name is None
        else connection.execute(f"{_SERIES} and name = ?", (app, name))
    )
    return {
        number: Found(name=name, kind=kind, labels=_labels(labels), bounds=tuple(json.loads(bounds)))
        for number, name, kind, labels, bounds in found
    }


def _labels(stored: str) -> LabelSet:
    return tuple(json.loads(stored).items())
