"""`workfleet jobs ls|show|retry`."""

from __future__ import annotations

import sys

import click

from ..app.client import Client
from ..app.loops import run_loop
from ..errors import NotFound, UsageError
from ..model.jobs import JobRecord, JobState
from ..ports.stores import JobQuery
from .documents import job_document, whole_job
from .failures import tell
from .job_page import write_job
from .options import CONTEXT, Where, app_option, json_option
from .output import at, count, near, write, write_json, write_table
from .project import Target, opened, target_of
from .summary import reason

_STATES = click.Choice([state.value for state in JobState])
_TITLES = ("ID", "QUEUE", "NAME", "STATE", ">ATTEMPTS", "CREATED", "NOTE")
_PAGE = 1_000


@click.group("jobs", context_settings=CONTEXT)
def jobs() -> None:
    """List, show and retry jobs.

    \b
    Examples:
      workfleet jobs ls --state failed
      workfleet jobs retry --all-failed --queue emails
    """


@jobs.command("ls")
@click.option("--queue", metavar="NAME", help="Only those of this queue.")
@click.option("--state", "states", multiple=True, type=_STATES, help="Only those in this state; may be repeated.")
@click.option("--name", metavar="NAME", help="Only those of this name.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@json_option
@app_option
def ls(*, where: Where, queue: str | None, states: tuple[str, ...], name: str | None, limit: int, as_json: bool) -> int:
    """Jobs, newest first. Those of workfleet itself (heartbeats and the like) are listed with --queue only.

    \b
    Examples:
      workfleet jobs ls --state failed --queue emails
      workfleet jobs ls --limit 1000 --json | jq -r .id
    """
    target = target_of(where)
    query = JobQuery(queue, tuple(map(JobState, states)) or None, name, limit + 1, housekeeping=queue is not None)
    found, now = run_loop(lambda: _find(target, query))
    shown = found[:limit]
    if as_json:
        for job in shown:
            write_json(job_document(job))
    elif shown:
        write_table(_TITLES, [_row(job, now) for job in shown])
    else:
        write("no jobs")
    if len(found) > limit:
        tell(f"there are more than these {limit}: --limit shows more")
    return 0


@jobs.command("show")
@click.argument("job_id", metavar="ID")
@json_option
@app_option
def show(*, where: Where, job_id: str, as_json: bool) -> int:
    """A job with its payload, attempts and their errors, logs and result.

    \b
    Examples:
      workfleet jobs show 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs show 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa --json | jq .payload
    """
    target = target_of(where)
    job, logs, now = run_loop(lambda: _get(target, job_id))
    if as_json:
        write_json(whole_job(job, logs))
    else:
        write_job(job, logs, now)
    return 0


@jobs.command("retry")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all-failed", is_flag=True, help="Every failed job, or every one of --queue.")
@click.option("--queue", metavar="NAME", help="With --all-failed: only those of this queue.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@app_option
def retry(*, where: Where, ids: tuple[str, ...], all_failed: bool, queue: str | None, dry_run: bool, yes: bool) -> int:
    """Make failed jobs ready again, with all their attempts. All of them, or none: nothing is done when one of the ids
    is wrong.

    \b
    Examples:
      workfleet jobs retry 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs retry --all-failed --queue emails --dry-run
    """
    if bool(ids) == all_failed:
        raise UsageError("say which jobs: their ids, or --all-failed")
    if queue is not None and not all_failed:
        raise UsageError("--queue goes with --all-failed")
    target = target_of(where)
    wanted = ids or run_loop(lambda: _all_failed(target, queue))
    if dry_run:
        run_loop(lambda: _check_failed(target, wanted))
        write(f"{count(len(wanted), 'job')} would be retried")
        return 0
    if all_failed and wanted and not yes and not _confirmed(f"Retry {count(len(wanted), 'failed job')}?"):
        tell("nothing was done")
        return 1
    write(f"{count(run_loop(lambda: _retry(target, wanted)), 'job')} made ready")
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
    if job.state is JobState.DELAYED:
        return f"due {at(job.due_ms)}" + (f" after: {reason(job)}" if job.failure else "")
    if job.state is JobState.ACTIVE:
        return f"on {job.worker}, {near(job.started_ms, now_ms)}"
    return job.outcome if job.outcome and job.outcome != job.state.value else ""


def _confirmed(question: str) -> bool:
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _find(target: Target, query: JobQuery) -> tuple[list[JobRecord], int]:
    async with opened(target) as client:
        store = await client.session.store()
        return await store.jobs.find(query), await store.now_ms()


async def _get(target: Target, job_id: str) -> tuple[JobRecord, list[str], int]:
    async with opened(target) as client:
        store = await client.session.store()
        return await client.jobs.get(job_id), await client.jobs.logs(job_id), await store.now_ms()


async def _all_failed(target: Target, queue: str | None) -> tuple[str, ...]:
    found: list[str] = []
    async with opened(target) as client:
        while True:
            page = await client.jobs.list(queue=queue, states=[JobState.FAILED], limit=_PAGE, offset=len(found))
            found += [job.id for job in page]
            if len(page) < _PAGE:
                return tuple(found)


async def _check_failed(target: Target, ids: tuple[str, ...]) -> None:
    async with opened(target) as client:
        await _require_failed(client, ids)


async def _retry(target: Target, ids: tuple[str, ...]) -> int:
    async with opened(target) as client:
        await _require_failed(client, ids)
        store = await client.session.store()
        # Somebody else may have retried one of them meanwhile: only ours are counted.
        return sum(await store.jobs.retry(ids))


async def _require_failed(client: Client, ids: tuple[str, ...]) -> None:
    """Raises NotFound and UsageError that name every id that cannot be retried."""
    store = await client.session.store()
    records = await store.jobs.get(ids)
    missing = [job_id for job_id, record in zip(ids, records, strict=True) if record is None]
    if missing:
        raise NotFound(
            f"there is no job {', '.join(missing)}: check the id, or its retention is over. Nothing was done"
        )
    other = [f"{job.id} is {job.state.value}" for job in records if job and job.state is not JobState.FAILED]
    if other:
        raise UsageError(f"only a failed job can be retried: {', '.join(other)}. Nothing was done")
