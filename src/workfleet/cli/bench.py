"""`workfleet bench`: how fast a user's own store is. Which store, and what is shown; measuring.py measures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import click

from ..app.loops import run_loop
from ..clock import SystemClock
from ..errors import StoreUnavailable
from ..settings.secrets import mask_url
from ..settings.store import sqlite_path, sqlite_url, store_scheme
from ..stores.sqlite.bell import folder_for
from .failures import tell
from .located import settings_of
from .measuring import Figures, measured
from .options import Where, app_argument, json_option
from .output import write, write_facts, write_json, write_table
from .project import target_of

_TITLES = ("MEASURED", ">JOBS/S", ">P50", ">P99", "WHAT IT IS")
_ROWS = {
    "enqueue_many": "enqueued a thousand a call",
    "enqueue": "enqueued one a call; the time of a call",
    "work": "claimed and settled, 200 at a time; the time of a call",
    "latency": "from the call that enqueues to the claim of a worker that waits",
}


@click.command("bench")
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(100, 1_000_000),
    default=10_000,
    show_default=True,
    help="How many jobs are enqueued and worked off.",
)
@json_option
@app_argument
def bench(*, where: Where, jobs: int, as_json: bool) -> int:
    """Measure the store: enqueueing, working off, and how soon a waiting worker has a job.

    It works as an application of its own ("workfleet-bench") in that store and deletes its jobs at the end, so that
    nothing of yours is touched; but it takes the store's time while it runs.

    \b
    Examples:
      workfleet bench app.py
      workfleet bench --store sqlite:///var/lib/shop/shop.db --jobs 50000 --json
    """
    store = _store_of(where)
    with _scratch(store) as url:
        figures = run_loop(lambda: measured(url, jobs, SystemClock()))
    if as_json:
        write_json({"store": mask_url(store), "jobs": jobs, **_document(figures)})
    else:
        write_facts([("store", mask_url(store)), ("jobs", f"{jobs:,}")])
        write()
        write_table(_TITLES, [_row(name, figures[name]) for name in _ROWS])
    return 0


def _store_of(where: Where) -> str:
    """The store that is named, else that of the application. Raises ConfigError and UsageError."""
    loaded = settings_of(where)
    # The name of an application that there is no need to know.
    return loaded.store_url("") if loaded.names_store else target_of(where).store_url


@contextmanager
def _scratch(store: str) -> Iterator[str]:
    """The store to measure. In place of an SQLite file that does not exist yet, one beside it, which is deleted after:
    a file of the real name might be in use by then."""
    if store_scheme(store) != "sqlite" or (path := sqlite_path(store)).exists():
        yield store
        return
    if not path.parent.is_dir():
        raise StoreUnavailable(store, "it does not exist yet, and neither does its folder")
    tell(f"{path} does not exist yet: a file beside it is measured, and deleted after")
    scratch = path.with_name(f"{path.name}.{uuid4().hex[:8]}.bench")
    try:
        yield sqlite_url(scratch)
    finally:
        _delete(scratch)


def _delete(path: Path) -> None:
    """The file and what the store keeps beside it; the folder of its sockets may be elsewhere."""
    for found in {*path.parent.glob(f"{path.name}*"), folder_for(path)}:
        if found.is_dir():
            shutil.rmtree(found, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)


def _document(figures: Mapping[str, Figures]) -> dict[str, dict[str, float]]:
    return {name: _figures(name, each) for name, each in figures.items()}


def _figures(name: str, figures: Figures) -> dict[str, float]:
    times = {"p50_ms": round(figures.p50_ms, 3), "p99_ms": round(figures.p99_ms, 3)}
    # One job at a time, sent apart: how many a second that were says nothing.
    return times if name == "latency" else {"jobs_per_s": round(figures.jobs_per_s, 1), **times}


def _row(name: str, figures: Figures) -> list[str]:
    rate = "" if name == "latency" else f"{figures.jobs_per_s:,.0f}"
    return [name, rate, f"{figures.p50_ms:.2f} ms", f"{figures.p99_ms:.2f} ms", _ROWS[name]]
