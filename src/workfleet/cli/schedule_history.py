"""`workfleet schedules history`: what became of a schedule's runs and slots."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from ..observe.logs.rendering import instant_text
from ..schedules.history import PastRun
from .options import Where, app_option, json_option
from .output import at, took, write_listing, write_table
from .project import target_of, with_client

_TITLES = ("ENDED", "SLOT", "OUTCOME", ">ATTEMPT", ">TOOK", "WORKER", "JOB", "BECAUSE")
_MS = timedelta(milliseconds=1)


@click.command("history")
@click.argument("name")
@click.option(
    "-n", "wanted", metavar="N", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many rows."
)
@json_option
@app_option
def history(*, where: Where, name: str, wanted: int, as_json: bool) -> int:
    """What became of a schedule's runs, the newest first: a row for each attempt, and for slots that made no run with
    the reason. It outlives the jobs themselves. Instants are in UTC.

    \b
    Examples:
      workfleet schedules history Cleanup.nightly
      workfleet schedules history Cleanup.nightly -n 1000 --json | jq 'select(.outcome != "completed")'
    """
    runs = with_client(target_of(where), lambda client: client.schedules.history(name, limit=wanted))
    write_listing(
        runs,
        document=run_document if as_json else None,
        table=lambda: write_table(_TITLES, [_row(run) for run in runs]),
        nothing=f"nothing is recorded of {name} yet",
    )
    return 0


def _row(run: PastRun) -> list[str]:
    outcome = run.outcome if run.count == 1 else f"{run.outcome} ({run.count} slots)"
    attempt = "" if run.attempt is None else str(run.attempt)
    lasted = "" if run.duration is None else took(run.duration // _MS)
    because = (run.error or "").partition("\n")[0]
    return [at(_ms(run.at)), at(_ms(run.slot)), outcome, attempt, lasted, run.worker, run.job_id or "", because]


def run_document(run: PastRun) -> dict[str, Any]:
    return {
        "schedule": run.schedule,
        "slot": _text(run.slot),
        "outcome": run.outcome,
        "at": _text(run.at),
        "attempt": run.attempt,
        "started": _text(run.started),
        "ended": _text(run.ended),
        "duration_ms": None if run.duration is None else run.duration // _MS,
        "worker": run.worker or None,
        "job": run.job_id,
        "count": run.count,
        "error": run.error,
    }


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else round(instant.timestamp() * 1000)


def _text(instant: datetime | None) -> str | None:
    ms = _ms(instant)
    return None if ms is None else instant_text(ms)
