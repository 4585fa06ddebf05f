"""Spans by the OpenTelemetry API. The SDK and its exporters are the user's; without them or the API: no-ops. Whatever
they raise, the code around which there is a span runs, and ends as it does without one."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from workfleet.bus import shown
from workfleet.errors import Cancel, Retry, Skipped, Snooze, WorkfleetError
from workfleet.events import Event, SubscriberFailed
from workfleet.ports.spans import BegunCall

from .trace_names import ERROR, OUTCOME
from .traceparent import Traceparent

try:
    from opentelemetry import context as _contexts
    from opentelemetry import trace as _api
    from opentelemetry.context import Context
except ImportError:  # not installed: the guard then only calls
    _api = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, SpanKind, Tracer

Failed = Callable[[str, Exception], None]
"""Hears what OpenTelemetry raised, and on what."""

_TRACER: Final = "workfleet"
_WHO: Final = "OpenTelemetry"
_UNKNOWN: Final = object()
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


def told_by(publish: Callable[[Event], None]) -> Failed:
    """What OpenTelemetry raises becomes `SubscriberFailed`."""
    return lambda what, error: publish(SubscriberFailed(subscriber=_WHO, event=what, error=shown(error)))


def warned(what: str, error: Exception) -> None:
    """Where nobody hears events, as in a child: on standard error, once for each text."""
    with suppress(Warning):  # an application may have made errors of them
        warnings.warn(f"{_WHO} failed on {what}: {shown(error)}", RuntimeWarning, stacklevel=2)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, object] | None = None,
    *,
    consumes: bool = False,
    parent: str | None = None,
    failed: Failed = warned,
) -> Iterator[None]:
    """Enter a span that is the current one inside. What the body raises is recorded in it, makes its status an error
    and goes on; a decision of a handler (`Snooze`, say) is its `workfleet.outcome` instead.

    Attributes that are None are left out; what OpenTelemetry takes no value of is given as text. `consumes`: it works
    off a message, whose sender's W3C `traceparent` is the `parent`; where a span is under way, that one does, and this
    one is a part of it. `failed` hears what OpenTelemetry raises: the body runs all the same.
    """
    if _api is None:
        yield
        return
    said = attributes or {}
    if consumes and _api.get_current_span().get_span_context().is_valid:
        consumes, parent = False, None
        said = {key: value for key, value in said.items() if not key.startswith("messaging.")}
    sender = sender_of(parent)
    with begun(
        name,
        _api.SpanKind.CONSUMER if consumes else _api.SpanKind.INTERNAL,
        said,
        context=None if sender is None else below(sender),
        current=True,
        failed=failed,
    ):
        yield


@contextmanager
def remote_span(name: str, attributes: Mapping[str, object], *, failed: Failed = warned) -> Iterator[BegunCall]:
    """An `OpenSpan`: of what another process does meanwhile."""
    if _api is None:
        yield _Nothing()
        return
    with begun(name, _api.SpanKind.CLIENT, attributes, current=False, failed=failed) as entered:
        yield _Nothing() if entered is None else _Begun(entered)


@contextmanager
def begun(
    name: str,
    kind: SpanKind,
    attributes: Mapping[str, object],
    *,
    context: Context | None = None,
    current: bool,
    failed: Failed,
) -> Iterator[Span | None]:
    """A span while the body runs, with what that raises; the current one, if it is to be. Samplers and processors are
    the user's: what they raise `failed` hears, and the body runs, without a span where there is none."""
    entered: Span | None = None
    try:
        entered = tracer().start_span(name, context=context, kind=kind, attributes=plain_attributes(attributes))
    except Exception as error:  # noqa: BLE001 - the boundary around them
        failed(f"the begin of span {name}", error)
    token = _contexts.attach(_api.set_span_in_context(entered)) if current and entered is not None else None
    raised: BaseException | None = None
    try:
        yield entered
    except BaseException as error:
        raised = error
        raise
    finally:
        if token is not None:
            _contexts.detach(token)
        if entered is not None:
            try:
                if raised is not None and not isinstance(raised, GeneratorExit):  # who reads a stream has had enough
                    record(entered, raised)
                entered.end()
            except Exception as error:  # noqa: BLE001 - as above
                failed(f"the end of span {name}", error)


class _Begun:
    """A `BegunCall`."""

    def __init__(self, entered: Span) -> None:
        self._span = entered
        self.trace = traceparent(entered)

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
    found = Traceparent.read(sent)
    if found is None or _api is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found)
    return _api.SpanContext(trace_id, span_id, is_remote=True, trace_flags=_api.TraceFlags(flags))


def below(sender: SpanContext | None) -> Context:
    """The context of what a span elsewhere has begun; of None, that of a trace of its own."""
    if sender is None:
        return Context()
    return _api.set_span_in_context(_api.NonRecordingSpan(sender), Context())


def record(entered: Span, error: BaseException) -> None:
    """How a span ends that raised."""
    kind = type(error)  # asking the exception itself would ask user code
    outcome = next((word for decision, word in _DECISIONS if issubclass(kind, decision)), None)
    if outcome is not None:
        entered.set_attribute(OUTCOME, outcome)
        return
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    code = error.code if isinstance(error, WorkfleetError) else None
    stack = "".join(traceback.format_exception(error))
    add_error(entered, code or name, type_=name, message=_said(error), stacktrace=stack)


def add_error(entered: Span, kind: str, *, type_: str, message: str, stacktrace: str) -> None:
    """The status, the kind by which it is searched for, and the event of an error."""
    said = {"type": type_, "message": message, "stacktrace": stacktrace}
    entered.set_attribute(ERROR, _clean(kind))
    entered.add_event("exception", {f"exception.{key}": _clean(value) for key, value in said.items() if value})
    entered.set_status(_api.Status(_api.StatusCode.ERROR, _clean(f"{type_ or kind}: {message}")))


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - the exception's own code is user code
        return f"(its text cannot be read: {type(broken).__name__})"


def _clean(text: str) -> str:
    """Without what UTF-8 has not: one such text would lose an exporter the whole batch."""
    return text.encode(errors="backslashreplace").decode()


def plain_attributes(said: Mapping[str, object]) -> dict[str, Any]:
    """Attributes as OpenTelemetry takes them, without those that are None."""
    return {key: _attribute(value) for key, value in said.items() if value is not None}


def _attribute(value: object) -> str | bool | int | float:
    return value if isinstance(value, (bool, int, float)) else _clean(str(value))
