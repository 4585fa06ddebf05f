"""A sampler or processor that raises, and what no exporter could send: code with a span around it does the same as
without one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest

from tests.observe.spans import Broken, Told, installed, said
from workfleet.observe.trace import current_trace, remote_span, span
from workfleet.observe.trace_calls import in_call

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Around = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(params=["begin", "end"])
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    with installed(Broken(request.param)):
        yield request.param


@pytest.fixture
def told() -> Iterator[Told]:
    with installed() as told:
        yield told


@pytest.mark.parametrize("around", [partial(span, "work"), partial(remote_span, "work", {})])
def test_the_body_runs_once_and_ends_as_it_does(where: str, around: Around) -> None:
    heard: list[tuple[str, str]] = []
    ran = []

    def failed(what: str, error: Exception) -> None:
        heard.append((what, str(error)))

    with around(failed=failed):
        ran.append(1)
    with pytest.raises(KeyError, match="mine"), around(failed=failed):
        raise KeyError("mine")
    assert ran == [1]
    assert heard == [(f"the {where} of span work", "no exporter")] * 2
    assert current_trace() is None


def test_a_call_that_cannot_have_a_span_here_brings_no_trace_along() -> None:
    with installed(Broken("begin")), remote_span("work", {}, failed=lambda *_: None) as begun:
        assert begun.trace is None
        begun.note("workfleet.child.pid", 1)


def test_in_a_child_it_is_a_warning(where: str) -> None:
    said = f"^OpenTelemetry failed on the {where} of span images.resize: OSError"
    with pytest.warns(RuntimeWarning, match=said), in_call("images", "resize", SENT):
        inside = current_trace()
    assert inside is not None
    assert inside.startswith(SENT[:35]), "the call is in its caller's trace all the same"
    assert current_trace() is None


def test_also_where_warnings_are_errors(where: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with in_call("images", "resize", SENT):
            ran = True
    assert ran


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_exception_whose_text_cannot_be_read_goes_on(told: Told) -> None:
    with pytest.raises(Mute), span("work"):
        raise Mute
    work = told.only("work")
    assert said(work)["error.type"].endswith(".Mute")
    assert work.status.description == f"{Mute.__module__}.Mute: (its text cannot be read: ValueError)"


def test_what_is_no_utf_8_is_escaped(told: Told) -> None:
    """One such text in a batch, and an exporter could send none of it."""
    with pytest.raises(KeyError), span("work", {"file": "a\udcff"}):
        raise KeyError("b\udcff")
    work = told.only("work")
    (event,) = work.events
    assert said(work)["file"] == "a\\udcff"
    told_of = [work.status.description, *(event.attributes or {}).values()]
    assert all(str(each).encode() for each in told_of)
    assert work.status.description == "KeyError: 'b\\udcff'"


def test_an_attribute_that_cannot_be_read_costs_its_span_only(told: Told) -> None:
    heard: list[str] = []
    with span("work", {"who": Mute()}, failed=lambda what, error: heard.append(f"{what}: {error}")):
        heard.append("ran")
    assert heard == ["the begin of span work: no words", "ran"]
    assert told.spans() == []
