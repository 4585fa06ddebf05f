"""In a pool's child: a call goes on in the trace of who made it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import trace_names as names
from .trace import begun, below, sender_of, warned

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
        facts = {names.POOL: pool, names.METHOD: method, names.CHILD: os.getpid()}
        with begun(f"{pool}.{method}", _api.SpanKind.SERVER, facts, current=True, failed=warned):
            yield
    finally:
        _contexts.detach(token)
