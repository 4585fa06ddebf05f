"""What tests of tracing share: an OpenTelemetry SDK that keeps spans in memory, and what they look at of a span."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Told:
    """The spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Those whose name begins so, in the order in which they ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]

    def only(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def forget(self) -> None:
        self._exporter.clear()


class Broken(SpanProcessor):
    """A user's processor that raises where it is told to."""

    def __init__(self, where: Literal["", "begin", "end"] = "") -> None:
        self.where = where

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.where == "begin":
            raise OSError("no exporter")

    def on_end(self, span: ReadableSpan) -> None:
        if self.where == "end":
            raise OSError("no exporter")


@contextmanager
def installed(*more: SpanProcessor) -> Iterator[Told]:
    """An SDK for the time of one test. The API takes a provider only once in a process, so it is put where it keeps
    it."""
    told = Told()
    for processor in more:
        told.provider.add_span_processor(processor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_TRACER_PROVIDER", told.provider)
        yield told


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str | None:
    """The id of the span above it."""
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_below(span: ReadableSpan, above: ReadableSpan) -> bool:
    return trace_of(span) == trace_of(above) and parent_of(span) == id_of(above)
