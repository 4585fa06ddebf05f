"""Payloads and results: what comes back is what was given, or it is refused with the place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import pytest
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, RootModel

from workfleet.errors import PayloadRejected
from workfleet.payloads.codec import Codec, encode_result


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    tags: frozenset[str] = frozenset()


class Line(TypedDict):
    points: list[float]


class Order(Struct, frozen=True):
    id: UUID
    total: Decimal
    at: datetime
    raw: bytes


class Model(BaseModel):
    name: str
    born: date


class Measured(BaseModel):
    value: float | None = Field(default=None, alias="theValue")
    more: Any = None
    each: list[Measured] = []


class Spelled(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="strings")
    value: float
    nothing: None = None


class Constants(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    value: float


def measured(value: float | None = None, **fields: Any) -> Measured:
    return Measured(theValue=value, **fields)


ORDER = Order(UUID(int=7), Decimal("1.10"), datetime(2027, 1, 1, tzinfo=UTC), b"\x00\xff")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Any, {"a": [1, 2.5, None, True, "ü"]}),
        (None, None),
        (int, 2**53 - 1),
        (Point, Point(1, frozenset({"a"}))),
        (Line, {"points": [1.5]}),
        (Order, ORDER),
        (list[Order], [ORDER]),
        (Colour, Colour.RED),
        (set[int], {1, 2}),
        (Model, Model(name="x", born=date(2027, 1, 1))),
        (dict[str, datetime], {"a": datetime(2027, 1, 1, tzinfo=UTC)}),
    ],
)
def test_round_trip(hint: Any, value: object) -> None:
    codec = Codec(hint, "payload of test")
    assert codec.decode(codec.encode(value)) == value


DEEP: Any = []
for _ in range(1_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("hint", "value", "path"),
    [
        (Any, {"a": [1, math.nan]}, "$.a[1]"),
        (Any, {"a": math.inf}, "$.a"),
        (Any, [2**53], "$[0]"),
        (Any, -(2**70), "$"),
        (Any, {"at": datetime(2027, 1, 1, tzinfo=UTC)}, "$.at"),
        (Any, {"raw": b"x"}, "$.raw"),
        (Any, {"s": {1}}, "$.s"),
        (Any, {"u": UUID(int=1)}, "$.u"),
        (Any, {"d": Decimal(1)}, "$.d"),
        (Any, {"p": Point(1)}, "$.p"),
        (Any, {1: "a"}, "$"),
        (Any, {"t": "\ud800"}, "$.t"),
        (Point, {"x": "no"}, "$.x"),
        (Point, Point(2**60), "$.x"),
        (Line, {"points": [math.nan]}, "$.points[0]"),
        (None, 1, "$"),
        (int, "1", "$"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(hint: Any, value: object, path: str) -> None:
    with pytest.raises(PayloadRejected) as refused:
        Codec(hint, "payload of test").encode(value)
    assert refused.value.path == path
    assert refused.value.what == "payload of test"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (measured(math.nan), "$.value"),
        (measured(-math.inf), "$.value"),
        (measured(more=math.inf), "$.more"),
        (measured(more={"a": [None, {7: (1, math.nan)}]}), "$.more.a[1].7[1]"),
        (measured(more={"s": {math.nan}}), "$.more.s[0]"),
        (measured(each=[measured(1.5), measured(math.nan)]), "$.each[1].value"),
        (RootModel[list[float]]([0.5, math.inf]), "$[1]"),
        (Constants(value=math.nan), "$.value"),
    ],
)
def test_a_model_without_a_number_is_refused_with_its_place(model: BaseModel, path: str) -> None:
    """pydantic itself would write null, or what is no JSON."""
    for encode in (Codec(type(model), "of test").encode, lambda value: encode_result(value, "of test")):
        with pytest.raises(PayloadRejected, match="is no JSON number") as refused:
            encode(model)
        assert (refused.value.what, refused.value.path) == ("of test", path)


def test_a_model_that_spells_such_numbers_as_text_round_trips() -> None:
    codec = Codec(Spelled, "of test")
    assert codec.encode(Spelled(value=-math.inf)) == b'{"value":"-Infinity","nothing":null}'
    assert codec.decode(codec.encode(Spelled(value=-math.inf))) == Spelled(value=-math.inf)
    assert codec.encode(Spelled(value=1.5)) == b'{"value":1.5,"nothing":null}'


def test_a_thousand_levels_are_refused() -> None:
    with pytest.raises(PayloadRejected, match="nested deeper than 200"):
        Codec(Any, "payload of test").encode(DEEP)


def test_the_limit_counts_encoded_bytes() -> None:
    Codec(str, "payload of test").encode("x" * (1024 * 1024 - 2))
    with pytest.raises(PayloadRejected, match=r"1,048,577 bytes of JSON, the limit is 1,048,576"):
        Codec(str, "payload of test").encode("x" * (1024 * 1024 - 1))


def test_nul_round_trips() -> None:
    codec = Codec(Any, "payload of test")
    assert codec.decode(codec.encode({"t": "a\0b"})) == {"t": "a\0b"}


def test_a_result_that_cannot_be_stored_names_its_type() -> None:
    with pytest.raises(PayloadRejected, match=r"result of n: .*object"):
        encode_result(object(), "result of n")


def test_stored_garbage_is_refused() -> None:
    with pytest.raises(PayloadRejected):
        Codec(Point, "payload of test").decode(b"{garbage")
