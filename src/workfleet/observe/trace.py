"""Spans by the OpenTelemetry API. The SDK and its exporters are the user's; without them or the API: no-ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

try:
    from opentelemetry import trace as _api
except ImportError:  # not installed: the guard then only calls
    _api = None  # type: ignore[assignment]

_TRACER = "workfleet"


@contextmanager
def span(name: str, attributes: Mapping[str, object] | None = None) -> Iterator[None]:
    """Enter a span that is the current one inside. What the body raises is recorded in it and goes on.

    Attributes that are None are left out; what OpenTelemetry takes no value of is given as text.
    """
    if _api is None:
        yield
        return
    plain = {key: _attribute(value) for key, value in (attributes or {}).items() if value is not None}
    # Asked for each time: the user may install his provider after this module was imported.
    with _api.get_tracer(_TRACER).start_as_current_span(name, attributes=plain):
        yield


def current_trace() -> str | None:
    """The current span as a W3C `traceparent`, for whatever goes on elsewhere; None: there is none."""
    if _api is None:
        return None
    context = _api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _attribute(value: object) -> str | bool | int | float:
    return value if isinstance(value, (str, bool, int, float)) else str(value)
