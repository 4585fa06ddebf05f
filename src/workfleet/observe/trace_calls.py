"""In a pool's child: a call goes on in the trace of who made it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import trace_names as names
from .trace import below, record, sender_of, tracer

try:
    from opentelemetry import context as _contexts
    from opentelemetry import trace as _api
except ImportError:  # not installed: the call only runs
    _api = None  # type: ignore[assignment]


@contextmanager
def in_call(pool: str | None, method: str, sent: str) -> Iterator[None]:
    """An `InCall`: spans of the method's own code are below the caller's; with a pool there is one of ours between
    them, where the child has an SDK."""
    sender = sender_of(sent)
    if sender is None:  # as always where there is no API
        yield
        return
    token = _contexts.attach(below(sender))
    try:
        if pool is None:
            yield
            return
        with tracer().start_as_current_span(
            f"{pool}.{method}",
            kind=_api.SpanKind.SERVER,
            attributes={names.POOL: pool, names.METHOD: method, names.CHILD: os.getpid()},
            record_exception=False,
            set_status_on_exception=False,
        ) as entered:
            try:
                yield
            except BaseException as error:
                record(entered, error)
                raise
    finally:
        _contexts.detach(token)
