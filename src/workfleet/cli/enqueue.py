"""`workfleet enqueue`: put a job on a queue."""

from __future__ import annotations

from typing import Any

import click

from ..app.loops import run_loop
from ..jobref import JobRef
from ..model.jobtypes import NewJob
from ..model.options import JobOptions
from .failures import tell
from .instants import instant_of
from .new_job import new_job, producer_of, read_payload, tell_if_unknown
from .options import Where, app_option, json_option
from .output import write_done
from .project import Target, opened


@click.command("enqueue")
@click.argument("queue")
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="null")
@click.option("--delay", metavar="DURATION", help="Run it this much later, such as 90s or 1h30m.")
@click.option("--at", metavar="INSTANT", help="Run it then, such as 2026-12-24T18:00Z.")
@click.option("--id", "job_id", metavar="ID", help="Its id; a job of that id that exists is left alone.")
@click.option("--priority", metavar="N", type=int, help="0 first, then lower numbers sooner.")
@json_option
@app_option
def enqueue(
    *,
    where: Where,
    queue: str,
    name: str,
    payload: str,
    delay: str | None,
    at: str | None,
    job_id: str | None,
    priority: int | None,
    as_json: bool,
) -> int:
    """Put a job on a queue, and print its id. JSON is the payload; `-` reads it from standard input.

    Where the application has a handler of that name, the payload must be of the handler's type.

    \b
    Examples:
      workfleet enqueue emails welcome '{"user_id": 7}' --delay 5m
      workfleet enqueue media thumbnail - --app shop.main:app < photo.json
    """
    value = read_payload(payload, name)
    options = JobOptions()
    if delay is not None:
        options["delay"] = delay
    if at is not None:
        options["at"] = instant_of("--at", at)
    if job_id is not None:
        options["id"] = job_id
    if priority is not None:
        options["priority"] = priority
    target = producer_of(where)
    job = new_job(target, queue, name, value, options)
    ref = run_loop(lambda: _put(target, job))
    write_done({"id": ref.id, "queue": queue, "name": name, "created": ref.created}, ref.id, as_json=as_json)
    tell_if_unknown(target, queue, name)
    if not ref.created:
        tell("already there: nothing was added")
    return 0


async def _put(target: Target, job: NewJob[Any]) -> JobRef[Any]:
    async with opened(target) as client:
        return await client.enqueue(job)
