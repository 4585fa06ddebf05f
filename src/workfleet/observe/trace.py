"""Spans by the OpenTelemetry API. The SDK and its exporters are the user's; without them or the API: no-ops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from workfleet.errors import Cancel, Retry, Skipped, Snooze, WorkfleetError
from workfleet.ports.spans import BegunCall

from .trace_names import ERROR, OUTCOME

try:
    from opentelemetry import trace as _api
    from opentelemetry.context import Context
except ImportError:  # not installed: the guard then only calls
    _api = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

_TRACER: Final = "workfleet"
_UNKNOWN: Final = object()
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_DECISIONS: tuple[tuple[type[BaseException], str], ...] = (
    (Skipped, "skipped"),
    (Snooze, "snoozed"),
    (Cancel, "cancelled"),
    (Retry, "retry"),
)
"""What code says on purpose is an outcome and no error."""


def provided() -> bool:
    """Whether somebody has given OpenTelemetry something that takes spans: its SDK, say.

    Every job asks, and the API's own way of asking costs twenty times as much as a look at its variable."""
    if _api is None:
        return False
    given = getattr(_api, "_TRACER_PROVIDER", _UNKNOWN)
    if given is _UNKNOWN:  # another version of the API
        return not isinstance(_api.get_tracer_provider(), _api.ProxyTracerProvider)
    return given is not None


def load_provider() -> None:
    """Let the API load what the variable OTEL_PYTHON_TRACER_PROVIDER names, if it is set: it does so when it is first
    asked, and `provided` does not ask."""
    if _api is not None:
        _api.get_tracer_provider()


def tracer() -> Tracer:
    """Asked for each time: the user may install his provider after this module was imported."""
    return _api.get_tracer(_TRACER)


@contextmanager
def span(
    name: str, attributes: Mapping[str, object] | None = None, *, consumes: bool = False, parent: str | None = None
) -> Iterator[None]:
    """Enter a span that is the current one inside. What the body raises is recorded in it, makes its status an error
    and goes on; a decision of a handler (`Snooze`, say) is its `workfleet.outcome` instead.

    Attributes that are None are left out; what OpenTelemetry takes no value of is given as text. `consumes`: it works
    off a message, whose sender's W3C `traceparent` is the `parent`; where a span is under way, that one does, and this
    one is a part of it.
    """
    if _api is None:
        yield
        return
    plain = plain_attributes(attributes or {})
    if consumes and _api.get_current_span().get_span_context().is_valid:
        consumes, parent = False, None
        plain = {key: value for key, value in plain.items() if not key.startswith("messaging.")}
    sender = sender_of(parent)
    with tracer().start_as_current_span(
        name,
        context=None if sender is None else below(sender),
        kind=_api.SpanKind.CONSUMER if consumes else _api.SpanKind.INTERNAL,
        attributes=plain,
        record_exception=False,
        set_status_on_exception=False,
    ) as entered:
        try:
            yield
        except BaseException as error:
            record(entered, error)
            raise


@contextmanager
def remote_span(name: str, attributes: Mapping[str, object]) -> Iterator[BegunCall]:
    """An `OpenSpan`: of what another process does meanwhile."""
    if _api is None:
        yield _Nothing()
        return
    begun = tracer().start_span(name, kind=_api.SpanKind.CLIENT, attributes=plain_attributes(attributes))
    try:
        yield _Begun(begun)
    except BaseException as error:
        if not isinstance(error, GeneratorExit):  # who reads a stream has had enough
            record(begun, error)
        raise
    finally:
        begun.end()


class _Begun:
    """A `BegunCall`."""

    def __init__(self, begun: Any) -> None:
        self._span = begun
        self.trace = traceparent(begun)

    def note(self, name: str, value: object) -> None:
        if value is not None:
            self._span.set_attribute(name, _attribute(value))


class _Nothing:
    """A `BegunCall` that nobody looks at."""

    trace = None

    def note(self, name: str, value: object) -> None:
        """There is no span."""


def current_trace() -> str | None:
    """The current span as a W3C `traceparent`, for whatever goes on elsewhere; None: there is none."""
    if _api is None:
        return None
    current = _api.get_current_span()
    return None if current is _api.INVALID_SPAN else traceparent(current)


def traceparent(entered: Any) -> str | None:
    """A span as a W3C `traceparent`; None for one that is none."""
    context = entered.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def sender_of(sent: str | None) -> SpanContext | None:
    """The span elsewhere that a W3C `traceparent` names; None for none, and for what is no such text."""
    found = None if sent is None or _api is None else _PARENT.fullmatch(sent)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    sender = _api.SpanContext(trace_id, span_id, is_remote=True, trace_flags=_api.TraceFlags(flags))
    return sender if sender.is_valid else None


def below(sender: SpanContext | None) -> Context:
    """The context of what a span elsewhere has begun; of None, that of a trace of its own."""
    if sender is None:
        return Context()
    return _api.set_span_in_context(_api.NonRecordingSpan(sender), Context())


def record(entered: Any, error: BaseException) -> None:
    """How a span ends that raised."""
    outcome = next((word for kind, word in _DECISIONS if isinstance(error, kind)), None)
    if outcome is not None:
        entered.set_attribute(OUTCOME, outcome)
        return
    kind = type(error)
    code = error.code if isinstance(error, WorkfleetError) else None
    entered.set_attribute(ERROR, code or f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
    entered.record_exception(error)
    entered.set_status(_api.Status(_api.StatusCode.ERROR, f"{kind.__qualname__}: {error}"))


def plain_attributes(said: Mapping[str, object]) -> dict[str, Any]:
    """Attributes as OpenTelemetry takes them, without those that are None."""
    return {key: _attribute(value) for key, value in said.items() if value is not None}


def _attribute(value: object) -> str | bool | int | float:
    return value if isinstance(value, (str, bool, int, float)) else str(value)
