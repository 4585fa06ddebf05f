"""Spans go to the user's OpenTelemetry, when there is one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from workfleet.errors import Cancel, Retry, Skipped, Snooze, StoreUnavailable
from workfleet.observe.trace import current_trace, span


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The API takes a provider only once in a process.
    monkeypatch.setattr(api, "get_tracer", provider.get_tracer)
    return exporter


def test_spans_nest_and_carry_attributes(exporter: InMemorySpanExporter) -> None:
    with span("outer", {"job": "thumb", "attempt": 2, "none": None, "path": Path("/x")}), span("inner"):
        assert api.get_current_span().is_recording()
    inner, outer = exporter.get_finished_spans()
    assert (inner.name, outer.name) == ("inner", "outer")
    assert outer.attributes == {"job": "thumb", "attempt": 2, "path": "/x"}
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert not api.get_current_span().is_recording()


def test_an_error_is_recorded_and_goes_on(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), span("work"):
        raise KeyError("gone")
    (work,) = exporter.get_finished_spans()
    assert work.status.status_code is api.StatusCode.ERROR
    assert [event.name for event in work.events] == ["exception"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(Skipped("x"), "skipped"), (Snooze("1s"), "snoozed"), (Cancel(), "cancelled"), (Retry(), "retry")],
)
def test_what_code_says_on_purpose_is_an_outcome(
    exporter: InMemorySpanExporter, error: BaseException, outcome: str
) -> None:
    with pytest.raises(type(error)), span("work"):
        raise error
    (work,) = exporter.get_finished_spans()
    assert work.status.status_code is api.StatusCode.UNSET
    assert (work.attributes, list(work.events)) == ({"workfleet.outcome": outcome}, [])


def test_what_an_error_is_can_be_searched_for(exporter: InMemorySpanExporter) -> None:
    for error in (KeyError("gone"), StoreUnavailable("s", "down"), asyncio.CancelledError()):
        with pytest.raises(type(error)), span("work"):
            raise error
    found = [work.attributes["error.type"] for work in exporter.get_finished_spans() if work.attributes is not None]
    assert found == ["KeyError", "store_unavailable", "asyncio.exceptions.CancelledError"]
    assert {work.status.status_code for work in exporter.get_finished_spans()} == {api.StatusCode.ERROR}


def test_the_span_of_a_message_is_in_its_senders_trace(exporter: InMemorySpanExporter) -> None:
    with span("request"):
        sent = current_trace()
    with span("work", consumes=True, parent=sent):
        pass
    with span("outer"), span("inner", consumes=True, parent=sent):
        pass
    with span("damaged", parent="00-nonsense"):
        pass
    request, work, inner, outer, damaged = exporter.get_finished_spans()
    assert work.kind is api.SpanKind.CONSUMER
    assert request.context is not None
    assert work.parent is not None
    assert (work.parent.trace_id, work.parent.span_id) == (request.context.trace_id, request.context.span_id)
    assert outer.context is not None
    assert inner.parent is not None
    assert inner.parent.span_id == outer.context.span_id  # what is under way here goes before
    assert damaged.parent is None


def test_without_an_sdk_nothing_happens() -> None:
    ran = []
    with span("work", {"a": 1}):
        ran.append(1)
    assert ran == [1]


def test_without_the_api_nothing_happens() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
from workfleet.errors import Cancel, Retry, Skipped, Snooze, StoreUnavailable
from workfleet.observe.trace import current_trace, span
with span("work", {"a": 1}): print("ran")
try:
    with span("work"): raise KeyError
except KeyError: print("raised")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ran\nraised\n"), ran.stderr


def test_the_current_span_as_a_traceparent(exporter: InMemorySpanExporter) -> None:
    assert current_trace() is None
    with span("request"):
        context = api.get_current_span().get_span_context()
        told = current_trace()
    assert told == f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert len(told) == 55
    assert current_trace() is None
    assert len(exporter.get_finished_spans()) == 1
