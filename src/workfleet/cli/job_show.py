"""`workfleet jobs show|logs`: one job."""

from __future__ import annotations

import sys

import click

from ..app.client import Client
from ..app.loops import run_loop
from ..model.jobs import JobRecord
from .documents import whole_job
from .failures import tell
from .job_page import write_job
from .options import Where, app_option, json_option, queue_option
from .output import lines_of, plain, write, write_json
from .project import Target, opened, target_of, with_client


@click.command("show")
@click.argument("job_id", metavar="ID")
@queue_option
@json_option
@app_option
def show(*, where: Where, job_id: str, queue: str | None, as_json: bool) -> int:
    """A job with its payload, options, attempts and their errors, logs and result; and what it waits for.

    \b
    Examples:
      workfleet jobs show 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs show 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa --json | jq .payload
    """
    job, lines, waits, now = with_client(target_of(where), lambda client: _get(client, job_id, queue))
    if as_json:
        write_json({**whole_job(job, lines), "waits_for": waits})
    else:
        write_job(job, lines, waits, now)
    return 0


@click.command("logs")
@click.argument("job_id", metavar="ID")
@queue_option
@click.option("-f", "--follow", is_flag=True, help="Wait for further lines, until the job has finished.")
@json_option
@app_option
def logs(*, where: Where, job_id: str, queue: str | None, follow: bool, as_json: bool) -> int:
    """What a job's code logged, and wrote with `job.log`, oldest first.

    With -f it ends when the job has finished, or at Ctrl-C.

    \b
    Examples:
      workfleet jobs logs 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs logs 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa -f
    """
    target = target_of(where)
    if follow:
        run_loop(lambda: _follow(target, job_id, queue, as_json=as_json))
        return 0
    lines = with_client(target, lambda client: client.jobs.logs(job_id, queue=queue))
    for line in lines:
        _write_line(line, as_json=as_json)
    if not lines and not as_json:
        tell(f"{plain(job_id)} has no lines")
    return 0


def _write_line(line: str, *, as_json: bool) -> None:
    if as_json:
        write_json({"line": line})
    else:
        write(lines_of(line))


async def _get(client: Client, job_id: str, queue: str | None) -> tuple[JobRecord, list[str], list[str], int]:
    store = await client.session.store()
    job = await client.jobs.get(job_id, queue=queue)
    waits = [reason.text for reason in await client.jobs.explain(job_id, queue=job.queue)]
    return job, await store.jobs.logs(job_id, queue=job.queue), waits, await store.now_ms()


async def _follow(target: Target, job_id: str, queue: str | None, *, as_json: bool) -> None:
    async with opened(target) as client:
        async for line in client.jobs.follow_logs(job_id, queue=queue):
            _write_line(line, as_json=as_json)
            sys.stdout.flush()  # somebody watches, or a pipe does
