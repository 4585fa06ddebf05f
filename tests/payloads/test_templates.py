"""Key templates."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from workfleet.templates import Template

VALUES = {"job": SimpleNamespace(data={"tenant": 7}, id="j1"), "job_id": "a"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{job.data.tenant}", "7"),
        ("report:{job.data.tenant}:{job.id}", "report:7:j1"),
        ("job_id", "a"),
        ("job.id", "j1"),
    ],
)
def test_fill(text: str, key: str) -> None:
    assert Template.parse(text, ("job", "job_id")).fill(VALUES) == key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nightly", "names no parameter, so it would be the same"),
        ("{other.x}", "names no parameter; there are job, job_id"),
        ("{job.data()}", "is no path"),
        ("{job!r}", "is no path"),
        ("{job", "unmatched brace"),
    ],
)
def test_what_is_no_key(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Template.parse(text, ("job", "job_id"))


def test_a_constant_where_it_is_allowed() -> None:
    assert Template.parse("nightly", ("job",), constant=True).fill({}) == "nightly"


def test_an_empty_value_is_no_key() -> None:
    with pytest.raises(ValueError, match="is empty"):
        Template.parse("{job_id}", ("job_id",)).fill({"job_id": ""})
