"""`workfleet metrics ls|query|export`: what the fleet has measured, as its metric store has it."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar, get_args

import click
from msgspec import structs

from ..app.loops import run_loop
from ..app.metrics import MetricsPlace, metrics_place
from ..clock import SystemClock
from ..errors import NotFound, StoreUnavailable, UsageError
from ..model.durations import duration_ms
from ..observe.metrics.exposition import exposition
from ..observe.metrics.model import Merge, MetricQuery, StoredSample, StoredSeries
from ..observe.metrics.sqlite import SqliteMetricStore
from ..observe.metrics.store import MetricStore
from ..settings.names import nearest
from ..settings.sections import MetricsSettings
from ..settings.store import store_scheme
from .documents import instant
from .failures import tell
from .instants import age_of, instant_of
from .metrics_age import tell_if_old
from .metrics_shown import Shown, write_charts, write_points
from .options import CONTEXT, Where, app_option, json_option
from .output import near, write, write_json, write_listing, write_table
from .project import Target, target_of

T = TypeVar("T")


@dataclass(frozen=True)
class _Seen:
    """A metric store that a command reads, and whose measurements are in it: one machine's (None: all machines')."""

    store: MetricStore
    now_ms: int
    host: str | None
    place: MetricsPlace


@click.group("metrics", context_settings=CONTEXT)
def metrics() -> None:
    """List, query and export what the fleet has measured.

    \b
    Examples:
      workfleet metrics ls
      workfleet metrics query workfleet_job_duration_seconds --label job=resize --since 6h
      workfleet metrics export > workfleet.prom
    """


@metrics.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """The names that were measured, their types, how many series they have, and when they were last written.

    \b
    Examples:
      workfleet metrics ls
      workfleet metrics ls --json | jq -r .name
    """

    async def read(seen: _Seen) -> tuple[list[StoredSeries], _Seen]:
        return await seen.store.series(), seen

    series, seen = _reading(target_of(where), read)
    found = [list(group) for _, group in groupby(series, key=lambda each: (each.name, each.kind))]
    rows = [[each[0].name, each[0].kind, str(len(each)), near(_last_ms(each), seen.now_ms)] for each in found]
    write_listing(
        found,
        document=_name_document if as_json else None,
        table=lambda: write_table(("NAME", "TYPE", ">SERIES", "LAST"), rows),
        nothing="nothing was measured yet",
    )
    return 0


@metrics.command("query")
@click.argument("name")
@click.option("-l", "--label", "labels", metavar="K=V", multiple=True, help="Only series with this label; repeatable.")
@click.option("--since", metavar="WHEN", default="1h", show_default=True, help="An age such as 6h, or an instant.")
@click.option("--until", metavar="WHEN", help="An instant; now unless given.")
@click.option("--step", metavar="DURATION", help="Time between points; about sixty of them unless given.")
@click.option("--by", metavar="LABEL", multiple=True, help="Merge series that agree in this label; repeatable.")
@click.option("--total", is_flag=True, help="Merge all series.")
@click.option(
    "--merge",
    type=click.Choice(get_args(Merge)),
    help="What merged gauges are together.  [default: sum; of ages and instants max or min]",
)
@click.option("--quantile", metavar="SHARE", type=float, help="Of a histogram only, such as 0.99.  [default: 0.95]")
@json_option
@app_option
def query(
    *,
    where: Where,
    name: str,
    labels: tuple[str, ...],
    since: str,
    until: str | None,
    step: str | None,
    by: tuple[str, ...],
    total: bool,
    merge: Merge | None,
    quantile: float | None,
    as_json: bool,
) -> int:
    """What was measured under a name: rates of a counter, quantiles of a histogram, last, mean and extremes of a gauge.
    A chart at a terminal, else a table.

    \b
    Examples:
      workfleet metrics query workfleet_jobs_total --by outcome --since 1d --step 1h
      workfleet metrics query workfleet_job_wait_seconds -l queue=mail --quantile 0.99
      workfleet metrics query workfleet_process_resident_memory_bytes --by host --merge max
      workfleet metrics query workfleet_queue_jobs -l state=waiting --since 2027-01-31T00:00Z --json
    """
    if merge is not None and not total and not by:
        raise UsageError("--merge is about what --by or --total merges: give one of them, too")
    from_when, to_when = age_of("--since", since), None if until is None else instant_of("--until", until)
    wanted = dict(_pair(label) for label in labels)
    target = target_of(where)
    merged = () if total else (by or None)

    async def read(seen: _Seen) -> Shown:
        stored = await seen.store.series()
        there = {label for each in stored if each.name == name for label, _ in each.labels}
        if not any(each.name == name for each in stored):
            raise NotFound(_unknown(name, {each.name for each in stored}))
        kinds = {each.kind for each in stored if each.name == name}
        if quantile is not None and "histogram" not in kinds:
            raise UsageError(
                f"--quantile is about histograms, and {name} is a {', '.join(sorted(kinds))}: leave it out"
            )
        if merge is not None and "gauge" not in kinds:
            raise UsageError(f"--merge is about gauges, and {name} is a {', '.join(sorted(kinds))}: leave it out")
        for label in (*wanted, *by):
            if label not in there:
                raise NotFound(_no_label(name, label, there))
        if to_when is None:
            settings = target.loaded.section("metrics", MetricsSettings)
            newest_ms = _last_ms(stored)
            await tell_if_old(newest_ms, seen.now_ms, settings=settings, place=seen.place, target=target)
        to_ms = seen.now_ms + 1 if to_when is None else _ms(to_when)
        from_ms = _ms(from_when) if isinstance(from_when, datetime) else to_ms - _span_ms("--since", since)
        step_ms = nice_step(to_ms - from_ms) if step is None else _span_ms("--step", step)
        asked = 0.95 if quantile is None else quantile
        question = MetricQuery(
            name=name,
            labels=wanted,
            from_ms=from_ms,
            to_ms=to_ms,
            step_ms=step_ms,
            by=merged,
            merge=merge,
            quantile=asked,
        )
        return Shown(await seen.store.query(question), from_ms, to_ms, step_ms, asked, seen.host)

    shown = _reading(target, read)
    if as_json:
        for each in shown.series:
            facts = {"name": each.name, "kind": each.kind, "labels": each.labels, "host": shown.host}
            for point in each.points:
                values = structs.asdict(point)
                write_json({**facts, "at": instant(values.pop("at_ms")), **values})
    elif not any(each.points for each in shown.series):
        write(f"nothing of {name} was measured in that time, or no series has these labels")
    elif sys.stdout.isatty():
        write_charts(shown)
    else:
        write_points(shown)
    return 0


@metrics.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["prometheus", "json"]),
    default="prometheus",
    show_default=True,
    help="Prometheus' text format, or one JSON document a series.",
)
@click.option(
    "--since",
    metavar="AGE",
    default="1h",
    show_default=True,
    help="Leave out gauges that were not written for so long; unchanged ones are written every 4 minutes.",
)
@app_option
def export(*, where: Where, form: str, since: str) -> int:
    """What every series comes to: the newest value of a gauge, the sum of a counter and of a histogram as far back as
    the store keeps them.

    \b
    Examples:
      workfleet metrics export > /var/lib/node_exporter/workfleet.prom
      workfleet metrics export --format json | jq 'select(.name == "workfleet_queue_jobs")'
    """
    age_ms = _span_ms("--since", since)

    async def read(seen: _Seen) -> tuple[list[StoredSample], str | None]:
        found = await seen.store.totals()
        newest = {each.name: each for each in sorted(found, key=lambda each: each.at_ms)}
        return [
            each
            for each in found
            # A name that was of another kind in an earlier release is now what it is.
            if each.kind == newest[each.name].kind and (each.kind != "gauge" or each.at_ms >= seen.now_ms - age_ms)
        ], seen.host

    samples, host = _reading(target_of(where), read)
    if form == "prometheus":
        sys.stdout.write(exposition(samples))
        return 0
    for sample in samples:
        write_json(_sample_document(sample, host))
    return 0


def nice_step(span_ms: int) -> int:
    """A step of a round length that gives about sixty points."""
    seconds = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)
    return next((each * 1000 for each in seconds if span_ms <= each * 60_000), 7 * 86_400_000)


def _reading(target: Target, read: Callable[[_Seen], Awaitable[T]]) -> T:
    """Open the application's metric store, read, and close it."""
    settings = target.loaded.section("metrics", MetricsSettings)
    if target.composition is not None and any("metrics" in module.factories for module in target.composition.modules):
        tell("the options that MetricsModule's factory makes are not known here: the settings alone say where to look")
    place = metrics_place(target.loaded, settings, target.app)
    host = _host(place, target)

    async def run() -> T:
        async with _opened(place, target) as store:
            return await read(_Seen(store, SystemClock().now_ms(), host, place))

    return run_loop(run)


def _host(place: MetricsPlace, target: Target) -> str | None:
    """The machine whose metrics these are alone; None: they are those of all. Says so, too."""
    if place.path is None or store_scheme(target.store_url) == "sqlite":
        return None
    host = socket.gethostname()
    tell(
        f"only what workers on this machine ({host}) have measured, which is in {place.path}. "
        "With metrics.storage=postgres all machines are seen together"
    )
    return host


@asynccontextmanager
async def _opened(place: MetricsPlace, target: Target) -> AsyncIterator[MetricStore]:
    """The store, if there is one. Raises `StoreUnavailable`."""
    store: MetricStore
    if place.url is not None:
        from ..observe.metrics.postgres import PostgresMetricStore

        store = PostgresMetricStore(place.url, place.app)
    elif place.path is None:
        raise StoreUnavailable("metrics", "they are in the memory of each process, so nothing is to be seen from here")
    elif not place.path.exists():
        raise StoreUnavailable(
            str(place.path), "it does not exist yet", f"Run the application first: {target.run_first}"
        )
    else:
        store = SqliteMetricStore(place.path, place.app, create=False)
    try:
        yield store
    finally:
        await store.close()


def _unknown(name: str, known: set[str]) -> str:
    meant = nearest(name, known)
    hint = f"did you mean {meant}?" if meant else "`workfleet metrics ls` lists what there is"
    return f"nothing was measured under the name {name!r}; {hint}"


def _no_label(name: str, label: str, there: set[str]) -> str:
    """Without this, what no series has would merge all of them, or find none, without a word."""
    which = f"there are {', '.join(sorted(there))}" if there else "it has no labels"
    return f"no series of {name} has a label {label!r}; {which}"


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"--label {text!r}: write it as name=value")
    return name, value


def _span_ms(option: str, text: str) -> int:
    """A duration. Raises `UsageError`."""
    try:
        return duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _name_document(series: list[StoredSeries]) -> dict[str, Any]:
    first = series[0]
    return {"name": first.name, "kind": first.kind, "series": len(series), "last": instant(_last_ms(series))}


def _last_ms(series: list[StoredSeries]) -> int:
    return max(each.at_ms for each in series)


def _sample_document(sample: StoredSample, host: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": sample.name,
        "kind": sample.kind,
        "labels": dict(sample.labels),
        "host": host,
        "at": instant(sample.at_ms),
        "value": sample.value,
    }
    if sample.kind == "histogram":
        bounds = [*map(str, sample.bounds), "+Inf"]
        document |= {"count": sample.count, "buckets": dict(zip(bounds, sample.buckets, strict=True))}
    return document
