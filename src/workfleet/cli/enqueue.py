"""`workfleet enqueue`: put a job on a queue, its payload checked by the handler's type where the handler is known."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from ..app.loops import run_loop
from ..app.registry import HandlerEntry
from ..enqueueing import payload_type
from ..errors import ConfigError, PayloadRejected, UsageError
from ..jobref import JobRef
from ..model.jobtypes import JobType, NewJob
from ..model.options import JobOptions
from ..payloads.codec import Codec
from ..payloads.strict import check_json
from .failures import tell
from .instants import instant_of
from .located import settings_of
from .options import Where, app_option
from .output import write
from .project import Target, opened, target_of


@click.command("enqueue")
@click.argument("queue")
@click.argument("name")
@click.argument("payload", metavar="[JSON]", default="null")
@click.option("--delay", metavar="DURATION", help="Run it this much later, such as 90s or 1h30m.")
@click.option("--at", metavar="INSTANT", help="Run it then, such as 2026-12-24T18:00Z.")
@click.option("--id", "job_id", metavar="ID", help="Its id; a job of that id that exists is left alone.")
@click.option("--priority", metavar="N", type=int, help="0 first, then lower numbers sooner.")
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
) -> int:
    """Put a job on a queue, and print its id. JSON is the payload; `-` reads it from standard input.

    Where the application has a handler of that name, the payload must be of the handler's type.

    \b
    Examples:
      workfleet enqueue emails welcome '{"user_id": 7}' --delay 5m
      workfleet enqueue media thumbnail - --app shop.main:app < photo.json
    """
    value = _parsed(sys.stdin.read() if payload == "-" else payload, name)
    options = JobOptions()
    if delay is not None:
        options["delay"] = delay
    if at is not None:
        options["at"] = instant_of("--at", at)
    if job_id is not None:
        options["id"] = job_id
    if priority is not None:
        options["priority"] = priority
    target = _target(where)
    job = _job(target, queue, name, value, options)
    ref = run_loop(lambda: _put(target, job))
    write(ref.id)
    _tell_if_unknown(target, queue, name)
    if not ref.created:
        tell("already there: nothing was added")
    return 0


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise PayloadRejected(f"payload of {name}", "$", "nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise PayloadRejected(f"payload of {name}", place, f"it is no JSON: {error.msg}") from None


def _target(where: Where) -> Target:
    """The application. One whose name is known need not be importable: another machine may have its code."""
    try:
        return target_of(where)
    except ConfigError as error:
        loaded = settings_of(where)
        if loaded.core.app_name is None:
            raise
        tell(f"the payload is not checked: {error}")
        return Target(loaded.core.app_name, loaded, "workfleet run")


def _job(target: Target, queue: str, name: str, value: Any, options: JobOptions) -> NewJob[Any]:
    for entry in _handlers(target, queue):
        if entry.name == name:
            return NewJob(entry.job.on(queue), _typed(entry, value), options)
    try:
        return NewJob(JobType(name, object, object, queue=queue), value, options)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _tell_if_unknown(target: Target, queue: str, name: str) -> None:
    known = sorted(entry.name for entry in _handlers(target, queue))
    if target.composition is not None and not known:
        tell(f"{target.app} has no handler on queue {queue!r}: the job waits until one listens to it")
    elif known and name not in known:
        tell(f"{target.app} has no handler {name!r} on queue {queue!r}, only {', '.join(known)}: added all the same")


def _handlers(target: Target, queue: str) -> list[HandlerEntry]:
    handlers = target.composition.registry.handlers if target.composition else []
    return [entry for entry in handlers if entry.queue == queue]


def _typed(entry: HandlerEntry, value: Any) -> Any:
    """The payload as the handler will get it. Raises PayloadRejected with the place that does not fit."""
    codec = Codec(payload_type(entry.job), f"payload of {entry.name}")
    try:
        return codec.decode(json.dumps(value).encode())
    except PayloadRejected:
        # What a decoder says of NaN or of half a surrogate pair explains nothing.
        check_json(value, codec.what)
        raise


async def _put(target: Target, job: NewJob[Any]) -> JobRef[Any]:
    async with opened(target) as client:
        return await client.enqueue(job)
