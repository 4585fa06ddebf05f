"""The span of what another process does: it is not the current one here, and says how it ended."""

from __future__ import annotations

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from workfleet.errors import CallTimeout
from workfleet.observe.trace import remote_span, span


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The API takes a provider only once in a process.
    monkeypatch.setattr(api, "get_tracer", provider.get_tracer)
    return exporter


def test_it_is_below_the_current_one_which_stays_that(exporter: InMemorySpanExporter) -> None:
    with span("job"):
        current = api.get_current_span()
        with remote_span("images.resize", {"workfleet.pool": "images"}) as begun:
            assert api.get_current_span() is current
            begun.note("workfleet.child.pid", 71)
            begun.note("nothing", None)
            told = begun.trace
    call, job = exporter.get_finished_spans()
    assert (call.name, call.kind, call.attributes) == (
        "images.resize", api.SpanKind.CLIENT, {"workfleet.pool": "images", "workfleet.child.pid": 71},
    )  # fmt: skip
    assert call.parent is not None
    assert job.context is not None
    assert call.parent.span_id == job.context.span_id
    assert call.status.is_unset
    assert call.context is not None
    assert told is not None
    assert told.startswith(f"00-{call.context.trace_id:032x}-{call.context.span_id:016x}-")


def test_what_it_ends_with_is_recorded_and_goes_on(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(CallTimeout), remote_span("images.resize", {}):
        raise CallTimeout("images", "resize", 5)
    (call,) = exporter.get_finished_spans()
    assert call.status.status_code is api.StatusCode.ERROR
    assert call.attributes == {"error.type": "call_timeout"}


def test_without_an_sdk_nothing_happens() -> None:
    with remote_span("images.resize", {}) as begun:
        begun.note("pid", 1)
        assert begun.trace is None
