"""`workfleet jobs`: the group, and `ls`."""

from __future__ import annotations

import click

from ..app.loops import run_loop
from ..model.jobs import JobRecord, JobState
from ..queues.filters import JobFilter
from .documents import job_document
from .failures import tell
from .job_actions import cancel, delete, promote, retry
from .job_explain import explain
from .job_filters import filter_options
from .job_show import logs, show
from .options import CONTEXT, Where, app_option, json_option
from .output import at, near, write_json, write_listing, write_table
from .project import Target, opened, target_of
from .summary import reason

_TITLES = ("ID", "QUEUE", "NAME", "STATE", ">ATTEMPTS", "CREATED", "NOTE")
_MOST = 100_000


@click.group("jobs", context_settings=CONTEXT)
def jobs() -> None:
    """List, show and explain jobs, read their logs; retry, cancel, delete and promote them.

    \b
    Examples:
      workfleet jobs ls --state failed --newer-than 1d
      workfleet jobs retry --queue emails --text timeout
    """


for command in (show, logs, explain, retry, cancel, delete, promote):
    jobs.add_command(command)


@jobs.command("ls")
@filter_options
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, _MOST), default=50, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="Without a limit.")
@json_option
@app_option
def ls(*, where: Where, filters: JobFilter, limit: int, everything: bool, as_json: bool) -> int:
    """Jobs, newest first. Those of workfleet itself (heartbeats and the like) are listed with --queue only.

    An AGE is a duration such as 90s, 1h30m or 2d, or an instant such as 2026-12-24T18:00Z.

    \b
    Examples:
      workfleet jobs ls --state failed --queue emails --newer-than 1h
      workfleet jobs ls --text ada@example.com
      workfleet jobs ls --all --json | jq -r .id
    """
    target = target_of(where)
    if everything and as_json:
        run_loop(lambda: _write_all(target, filters))
        return 0
    found, now = run_loop(lambda: _find(target, filters, None if everything else limit + 1))
    shown = found if everything else found[:limit]
    write_listing(
        shown,
        document=job_document if as_json else None,
        table=lambda: write_table(_TITLES, [_row(job, now) for job in shown]),
        nothing="no jobs",
    )
    if len(found) > len(shown):
        tell(f"there are more than these {limit}: --limit or --all shows more")
    return 0


def _row(job: JobRecord, now_ms: int) -> list[str]:
    return [
        job.id,
        job.queue,
        job.name,
        job.state.value,
        str(job.attempts_made),
        near(job.created_ms, now_ms),
        _note(job, now_ms),
    ]


def _note(job: JobRecord, now_ms: int) -> str:
    if job.state is JobState.FAILED:
        return reason(job)
    if job.parked:
        return "parked until the job that runs under its unique key has finished"
    if job.state is JobState.DELAYED:
        return f"due {at(job.due_ms)}" + (f" after: {reason(job)}" if job.failure else "")
    if job.state is JobState.ACTIVE:
        asked = ", is to be cancelled" if job.cancel_asked else ""
        return f"on {job.worker}, {near(job.started_ms, now_ms)}{asked}"
    return job.outcome if job.outcome and job.outcome != job.state.value else ""


async def _find(target: Target, filters: JobFilter, limit: int | None) -> tuple[list[JobRecord], int]:
    async with opened(target) as client:
        now = await (await client.session.store()).now_ms()
        if limit is not None:
            return await client.jobs.list(limit=limit, **filters), now
        return [job async for job in client.jobs.iterate(**filters)], now


async def _write_all(target: Target, filters: JobFilter) -> None:
    """Write each page as it comes: however many there are, they need no memory."""
    async with opened(target) as client:
        async for job in client.jobs.iterate(**filters):
            write_json(job_document(job))
