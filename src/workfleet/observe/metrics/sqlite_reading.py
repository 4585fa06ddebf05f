"""What is read out of a metric store's SQLite file. Nothing here changes anything."""

from __future__ import annotations

import json
from collections.abc import Iterator

import apsw

from .aggregate import matches
from .model import Kind, LabelSet, MetricQuery, MetricRow, StoredSeries

_SERIES = "select id, name, kind, labels, bounds from wf_metric_series where app = ?"
_ENDS = """
select name, kind, labels, (select max(at_ms) from wf_metric_point where series = id) from wf_metric_series
where app = ?
"""
_POINTS = """
select at_ms, value, count, buckets from wf_metric_point
where series = ? and at_ms >= ? and at_ms < ? order by at_ms, rowid
"""
_NEWEST = "select at_ms, value, 0 from wf_metric_point where series = ? order by at_ms desc, rowid desc limit 1"
_SUM = "select max(at_ms), sum(value), sum(count) from wf_metric_point where series = ?"
_BUCKETS = """
select sum(bucket.value) from wf_metric_point as point, json_each(point.buckets) as bucket
where point.series = ? group by bucket.key order by bucket.key
"""


def stored_rows(connection: apsw.Connection, app: str, query: MetricQuery) -> Iterator[MetricRow]:
    """The rows that a query is about."""
    for number, _, kind, labels, bounds in _series(connection, app, query.name):
        if not matches(labels, query):
            continue
        for at_ms, value, count, buckets in connection.execute(_POINTS, (number, query.from_ms, query.to_ms)):
            yield MetricRow(
                name=query.name,
                kind=kind,
                labels=labels,
                at_ms=at_ms,
                value=value,
                count=count,
                bounds=bounds,
                buckets=tuple(json.loads(buckets)),
            )


def ends(connection: apsw.Connection, app: str) -> Iterator[StoredSeries]:
    """Each series of one set of bounds, with its newest instant."""
    for name, kind, labels, at_ms in connection.execute(_ENDS, (app,)):
        if at_ms is not None:
            yield StoredSeries(name=name, kind=kind, labels=_labels(labels), at_ms=at_ms)


def sums(connection: apsw.Connection, app: str) -> Iterator[MetricRow]:
    """Each series of one set of bounds, added up, all as of one moment."""
    with connection:
        for number, name, kind, labels, bounds in _series(connection, app):
            query = _NEWEST if kind == "gauge" else _SUM
            for at_ms, value, count in connection.execute(query, (number,)):
                if at_ms is None:
                    continue
                buckets = connection.execute(_BUCKETS, (number,)) if kind == "histogram" else ()
                yield MetricRow(
                    name=name,
                    kind=kind,
                    labels=labels,
                    at_ms=at_ms,
                    value=value,
                    count=count,
                    bounds=bounds,
                    buckets=tuple(int(bucket) for (bucket,) in buckets),
                )


def _series(
    connection: apsw.Connection, app: str, name: str | None = None
) -> list[tuple[int, str, Kind, LabelSet, tuple[float, ...]]]:
    found = (
        connection.execute(_SERIES, (app,))
        if name is None
        else connection.execute(f"{_SERIES} and name = ?", (app, name))
    )
    return [
        (number, name, kind, _labels(labels), tuple(json.loads(bounds))) for number, name, kind, labels, bounds in found
    ]


def _labels(stored: str) -> LabelSet:
    return tuple(json.loads(stored).items())
