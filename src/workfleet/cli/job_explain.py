"""`workfleet jobs explain`: why a job does not run, or what became of it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from ..app.client import Client
from ..model.jobs import FINISHED, JobRecord, JobState
from ..queues.waits import Reason
from .options import Where, app_option, json_option
from .output import indented, near, plain, write, write_json
from .project import target_of, with_client
from .summary import reason


@click.command("explain")
@click.argument("job_id", metavar="ID")
@json_option
@app_option
def explain(*, where: Where, job_id: str, as_json: bool) -> int:
    """Why a job does not run: its queue is paused, it is delayed or behind others, a limit holds it back, its unique
    key is busy, no worker listens or knows its name. Of one that runs or has finished: where it is, how it ended.

    \b
    Examples:
      workfleet jobs explain 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs explain 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa --json | jq -r .reasons[].code
    """
    job, reasons, now = with_client(target_of(where), lambda client: _ask(client, job_id))
    if as_json:
        told = [{"code": each.code, "text": each.text} for each in reasons]
        write_json({"id": job.id, "queue": job.queue, "name": job.name, "state": job.state.value, "reasons": told})
    else:
        for line in _lines(job, reasons, now):
            write(line)
    return 0


async def _ask(client: Client, job_id: str) -> tuple[JobRecord, list[Reason], int]:
    store = await client.session.store()
    return await client.jobs.get(job_id), await client.jobs.explain(job_id), await store.now_ms()


def _lines(job: JobRecord, reasons: list[Reason], now_ms: int) -> Iterator[str]:
    name = f"{plain(job.name)} on queue {plain(job.queue)}"
    what = f"{name} is {job.state.value}"
    if job.state is JobState.ACTIVE:
        asked = "; it is to be cancelled" if job.cancel_asked else ""
        yield f"{what}: it runs on {plain(job.worker or '')}, started {near(job.started_ms, now_ms)}{asked}"
    elif job.state in FINISHED:
        why = f": {reason(job)}" if job.state is JobState.FAILED else ""
        yield f"{name} {job.state.value} {near(job.finished_ms, now_ms)}{why}"
    else:
        yield f"{what}. It waits for"
        for each in reasons:
            yield indented(each.text)
