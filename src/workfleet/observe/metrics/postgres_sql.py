"""The tables of metrics in PostgreSQL, and every statement about them."""

from __future__ import annotations

VERSION = 1

SCHEMA = f"""
create table wf_metric_format (version integer not null);
insert into wf_metric_format values ({VERSION});
create table wf_metric_series (
  id bigint generated always as identity primary key,
  app text not null,
  name text not null,
  kind text not null,
  labels text not null,
  bounds text not null,
  hash text not null,
  unique (app, hash)
);
comment on column wf_metric_series.hash is 'of name, kind, labels and bounds: labels may be too long for an index';
comment on column wf_metric_series.labels is 'JSON object, keys sorted';
comment on column wf_metric_series.bounds is 'JSON array';
create index wf_metric_series_name on wf_metric_series (app, name);
create table wf_metric_point (
  series bigint not null,
  at_ms bigint not null,
  value double precision not null,
  count bigint not null,
  buckets bigint[] not null
);
create index wf_metric_point_at on wf_metric_point (series, at_ms);
"""
KNOW = """
insert into wf_metric_series (app, hash, name, kind, labels, bounds)
select %s, * from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) on conflict do nothing
"""
WRITE = """
insert into wf_metric_point (series, at_ms, value, count, buckets)
select series.id, row.at_ms, row.value, row.count, row.buckets::bigint[]
from unnest(%s::text[], %s::bigint[], %s::float8[], %s::bigint[], %s::text[]) with ordinality
  as row (hash, at_ms, value, count, buckets, place)
join wf_metric_series as series on series.app = %s and series.hash = row.hash
order by row.place
"""
SERIES = "select id, name, kind, labels, bounds from wf_metric_series where app = %s"
SPAN = """
select min(first), max(last) from unnest(%s::bigint[]) as each (id), lateral (
  select min(at_ms) as first, max(at_ms) as last from wf_metric_point where series = id
) as point
"""
_THESE = "from wf_metric_point where series = any(%(found)s) and at_ms >= %(from_ms)s and at_ms < %(to_ms)s"
_STEP = "at_ms - at_ms %% %(step_ms)s"
POINTS = {
    "gauge": f"select series, at_ms, value {_THESE} order by at_ms",
    "counter": f"select series, min(at_ms), sum(value) {_THESE} group by series, {_STEP}",
    "histogram": f"""
with piece as materialized (select series, {_STEP} as step, at_ms, value, count, buckets {_THESE}),
sums as (
  select series, step, min(at_ms) as at_ms, sum(value) as value, sum(count)::bigint as count from piece
  group by series, step
),
spread as (
  select series, step, place, sum(bucket)::bigint as bucket
  from piece, unnest(buckets) with ordinality as each (bucket, place) group by series, step, place
)
select series, at_ms, value, count, array(
  select bucket from spread where spread.series = sums.series and spread.step = sums.step order by place
) from sums
""",
}
"""Of a piece, by kind: gauges in order of time; what counts increases, added up by steps."""
ENDS = """
select name, kind, labels, point.at_ms from wf_metric_series, lateral (
  select max(at_ms) as at_ms from wf_metric_point where series = id
) as point where app = %s and point.at_ms is not null
"""
SUMS = """
select id, point.at_ms, point.value, point.count, array(
  select sum(bucket)::bigint from wf_metric_point, unnest(buckets) with ordinality as each (bucket, place)
  where series = id and kind = 'histogram' group by place order by place
)
from wf_metric_series, lateral (
  (select at_ms, value, 0 as count from wf_metric_point
   where series = id and kind = 'gauge' order by at_ms desc limit 1)
  union all
  select max(at_ms), sum(value), sum(count)::bigint from wf_metric_point where series = id and kind <> 'gauge'
) as point where app = %s and point.at_ms is not null
"""
PRUNE = """
delete from wf_metric_point where ctid = any(array(
  select point.ctid from wf_metric_series as series join wf_metric_point as point on point.series = series.id
  where series.app = %s and point.at_ms < %s limit %s))
"""
FORGET = """
delete from wf_metric_series as series where app = %s
  and not exists (select 1 from wf_metric_point as point where point.series = series.id)
"""
