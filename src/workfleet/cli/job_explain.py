"""`workfleet jobs explain`: why a job does not run, or what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..app.client import Client
from ..app.loops import run_loop
from ..errors import NotFound
from ..model.jobs import FINISHED, JobRecord, JobState
from ..queues.waits import Reason
from .documents import instant
from .options import Where, app_option, json_option, queue_option
from .outbox import in_outbox
from .output import indented, near, plain, write, write_json
from .project import target_of, with_client
from .summary import reason

_WAITS = ". It waits for"


@click.command("explain")
@click.argument("job_id", metavar="ID")
@queue_option
@json_option
@app_option
def explain(*, where: Where, job_id: str, queue: str | None, as_json: bool) -> int:
    """Why a job does not run: its queue is paused, it is delayed or behind others, a limit holds it back, its unique
    key is busy, no worker listens or knows its name. Of one that runs or has finished: where it is, how it ended, and
    whether it waits there for a process pool or its worker is gone.

    \b
    Examples:
      workfleet jobs explain 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs explain 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa --json | jq -r .reasons[].code
    """
    target = target_of(where)
    try:
        job, reasons, now = with_client(target, lambda client: _ask(client, job_id, queue))
    except NotFound:
        left = run_loop(lambda: in_outbox(target, job_id))
        if left is None:
            raise
        _tell_outbox(left, job_id, as_json=as_json)
        return 0
    if as_json:
        write_json(_document(job, reasons))
    else:
        for line in _lines(job, reasons, now):
            write(line)
    return 0


def _document(job: JobRecord, reasons: list[Reason]) -> dict[str, Any]:
    return {
        "id": job.id,
        "queue": job.queue,
        "name": job.name,
        "state": job.state.value,
        "worker": job.worker if job.state is JobState.ACTIVE else None,
        "started": instant(job.started_ms),
        "finished": instant(job.finished_ms),
        "failure": reason(job) if job.state is JobState.FAILED else None,
        "reasons": [{"code": each.code, "text": each.text} for each in reasons],
    }


def _tell_outbox(left: str, job_id: str, *, as_json: bool) -> None:
    """Of a job that the store does not have yet."""
    if as_json:
        unknown = dict.fromkeys(("queue", "name", "state", "worker", "started", "finished", "failure"))
        write_json({"id": job_id, **unknown, "reasons": [{"code": "outbox", "text": left}]})
    else:
        write(f"{plain(job_id)} is not in the store yet{_WAITS}")
        write(indented(left))


async def _ask(client: Client, job_id: str, queue: str | None) -> tuple[JobRecord, list[Reason], int]:
    store = await client.session.store()
    job = await client.jobs.get(job_id, queue=queue)
    return job, await client.jobs.explain(job_id, queue=job.queue), await store.now_ms()


def _lines(job: JobRecord, reasons: list[Reason], now_ms: int) -> Iterator[str]:
    name = f"{plain(job.name)} on queue {plain(job.queue)}"
    what = f"{name} is {job.state.value}"
    if job.state is JobState.ACTIVE:
        asked = "; it is to be cancelled" if job.cancel_asked else ""
        since = f"started {near(job.started_ms, now_ms)}{asked}"
        # It is with its worker all the same when it waits for something there.
        runs, waits = ("is", _WAITS) if reasons else ("runs", "")
        yield f"{what}: it {runs} on {plain(job.worker or '?')}, {since}{waits}"
        yield from (indented(each.text) for each in reasons)
    elif job.state in FINISHED:
        why = f": {reason(job)}" if job.state is JobState.FAILED else ""
        yield f"{name} {job.state.value} {near(job.finished_ms, now_ms)}{why}"
    else:
        yield f"{what}{_WAITS}"
        yield from (indented(each.text) for each in reasons)
