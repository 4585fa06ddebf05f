"""A job as the command line gives it: its payload checked by the handler's type where the handler is known."""

from __future__ import annotations

import json
import sys
from typing import Any

from ..app.registry import HandlerEntry
from ..enqueueing import payload_type
from ..errors import ConfigError, PayloadRejected, UsageError
from ..model.jobtypes import JobType, NewJob
from ..model.options import JobOptions
from ..payloads.codec import Codec
from ..payloads.strict import check_json
from .failures import tell
from .located import settings_of
from .options import Where
from .project import Target, target_of


def read_payload(text: str, name: str) -> Any:
    """The payload; `-` is standard input. Raises `PayloadRejected` for what is no JSON."""
    text = sys.stdin.read() if text == "-" else text
    try:
        return json.loads(text)
    except RecursionError:
        raise PayloadRejected(f"payload of {name}", "$", "nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise PayloadRejected(f"payload of {name}", place, f"it is no JSON: {error.msg}") from None
    except ValueError:
        # Python reads no whole number of more than some thousand digits.
        raise PayloadRejected(f"payload of {name}", "$", "a number of too many digits") from None


def producer_of(where: Where) -> Target:
    """The application. One whose name is known need not be importable: another machine may have its code."""
    try:
        return target_of(where)
    except ConfigError as error:
        loaded = settings_of(where)
        if loaded.core.app_name is None:
            raise
        tell(f"the payload is not checked: {error}")
        return Target(loaded.core.app_name, loaded, "workfleet run")


def new_job(target: Target, queue: str, name: str, value: Any, options: JobOptions) -> NewJob[Any]:
    """The job of that name on that queue. Raises `UsageError`, and `PayloadRejected` where the handler's type is
    another."""
    for entry in handlers_of(target):
        if (entry.queue, entry.name) == (queue, name):
            return NewJob(entry.job.on(queue), _typed(entry, value), options)
    try:
        return NewJob(JobType(name, object, object, queue=queue), value, options)
    except ValueError as error:
        raise UsageError(str(error)) from None


def tell_if_unknown(target: Target, queue: str, name: str) -> None:
    """Say so where nothing that is known here would run the job."""
    known = sorted(entry.name for entry in handlers_of(target) if entry.queue == queue)
    if target.composition is not None and not known:
        tell(f"{target.app} has no handler on queue {queue!r}: the job waits until one listens to it")
    elif known and name not in known:
        tell(f"{target.app} has no handler {name!r} on queue {queue!r}, only {', '.join(known)}: added all the same")


def handlers_of(target: Target) -> list[HandlerEntry]:
    """The application's handlers, where its code is here."""
    return target.composition.registry.handlers if target.composition else []


def _typed(entry: HandlerEntry, value: Any) -> Any:
    """The payload as the handler will get it. Raises PayloadRejected with the place that does not fit."""
    codec = Codec(payload_type(entry.job), f"payload of {entry.name}")
    try:
        return codec.decode(json.dumps(value).encode())
    except PayloadRejected:
        # What a decoder says of NaN or of half a surrogate pair explains nothing.
        check_json(value, codec.what)
        raise
