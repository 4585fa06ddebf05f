"""Durations and sizes: what is read, what is refused and why, and that text comes back as it was."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from workfleet.model.durations import (
    MAX_DURATION_MS,
    MAX_SIZE_BYTES,
    duration_ms,
    format_duration,
    format_size,
    size_bytes,
)
from workfleet.units import Duration, Size


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        (" 5m ", 300_000),
        ("1.5h", 5_400_000),
        ("14d", 1_209_600_000),
        ("1w", 604_800_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("0s", 0),
        ("0.0004s", None),
        ("1.0005s", 1000),
        ("365000d", MAX_DURATION_MS),
    ],
)
def test_durations_are_read(text: str, ms: int | None) -> None:
    if ms is None:
        with pytest.raises(ValueError, match="shorter than a millisecond"):
            duration_ms(text)
    else:
        assert duration_ms(text) == ms


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("90", r"'90' has no unit: write '90s', '90m'"),
        ("1.5", "has no unit"),
        ("-5s", "is negative"),
        ("-5", "no unit"),
        ("1h1h", "each unit once, the largest first"),
        ("30m1h", "each unit once, the largest first"),
        ("5min", "is not a duration such as '90s'"),
        ("90S", "is not a duration such as"),
        ("1d12", "is not a duration such as"),
        ("", "is not a duration such as"),
        ("NaN", "is not a duration such as"),
        ("infs", "is not a duration such as"),
        ("١s", "is not a duration such as"),
        ("1e3s", "is not a duration such as"),
        ("365001d", "too long: at most 365000d"),
        ("9" * 99 + "w", "too long: at most"),
        ("9" * 1_000_000 + "s", "longer than any duration"),
        (90, "write text such as '90s'"),
        (1.5, "write text such as"),
        (float("nan"), "write text such as"),
        (True, "write text such as"),
        (None, "write text such as"),
        (timedelta(seconds=-1), "is negative"),
        (timedelta.max, "is too long"),
        (timedelta(microseconds=1), "shorter than a millisecond"),
    ],
)
def test_other_durations_are_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        duration_ms(value)


def test_a_timedelta_is_rounded_to_the_millisecond() -> None:
    assert duration_ms(timedelta(seconds=1) / 3) == 333
    assert duration_ms(timedelta(days=1, milliseconds=5)) == 86_400_005
    assert duration_ms(timedelta(0)) == 0


@given(st.integers(min_value=0, max_value=MAX_DURATION_MS))
def test_a_duration_comes_back_from_its_text(ms: int) -> None:
    assert duration_ms(format_duration(ms)) == ms


def test_durations_are_written_in_the_units_people_use() -> None:
    written = [format_duration(ms) for ms in (0, 250, 90_000, 1_209_600_000, 5_400_001, -1500)]
    assert written == ["0s", "250ms", "1m30s", "14d", "1h30m1ms", "-1s500ms"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("512MB", 512_000_000),
        ("512MiB", 536_870_912),
        ("2GB", 2_000_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("10b", 10),
        ("0B", 0),
        ("1TiB", 2**40),
    ],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert size_bytes(text) == count


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("512", r"'512' has no unit: write '512B', '512MB' or '512MiB'"),
        ("512M", "is not a size such as"),
        ("-1MB", "is not a size such as"),
        ("nanMB", "is not a size such as"),
        ("1.5B", "whole number of bytes"),
        ("9999999TB", f"at most {MAX_SIZE_BYTES} bytes"),
        ("9" * 1_000_000 + "B", "longer than any"),
        (512, "write text such as '512MB'"),
        (True, "write text such as '512MB'"),
    ],
)
def test_other_sizes_are_refused_with_the_reason(value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        size_bytes(value)


@given(st.integers(min_value=0, max_value=MAX_SIZE_BYTES))
def test_a_size_comes_back_from_its_text(count: int) -> None:
    assert size_bytes(format_size(count)) == count


def test_sizes_keep_decimal_and_binary_apart() -> None:
    assert [format_size(n) for n in (0, 512_000_000, 536_870_912, 1536, 1000, 1024)] == [
        "0B", "512MB", "512MiB", "1536B", "1kB", "1KiB",
    ]  # fmt: skip


class Limits(BaseModel):
    wait: Duration = Duration("90s")
    memory: Size | None = None


def test_models_read_and_write_them_as_text() -> None:
    limits = Limits.model_validate({"wait": "1h30m", "memory": "2GiB"})
    assert limits.wait == timedelta(hours=1.5)
    assert limits.wait.ms == 5_400_000
    assert limits.memory == 2**31
    assert limits.model_dump_json() == '{"wait":"1h30m","memory":"2GiB"}'
    assert Limits.model_validate_json(limits.model_dump_json()) == limits
    assert Limits.model_validate(limits.model_dump()) == limits
    assert type(limits.model_dump()["memory"]) is Size


def test_a_model_refuses_a_bare_number() -> None:
    with pytest.raises(ValidationError, match="is not a duration: write text"):
        Limits.model_validate({"wait": 90})
    with pytest.raises(ValidationError, match="is not a size: write text"):
        Limits.model_validate({"memory": 512})


def test_the_json_schema_says_text() -> None:
    schema = TypeAdapter(Duration).json_schema()
    assert schema["type"] == "string"
    assert TypeAdapter(Size).json_schema()["type"] == "string"


@pytest.mark.parametrize("value", [Duration("1h30m"), Duration("0s"), Size("512MiB"), Size("0B")])
def test_they_survive_pickle_and_copy_with_their_type(value: Duration | Size) -> None:
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert again == value
        assert type(again) is type(value)
    assert str(value) in repr(value)


def test_arithmetic_gives_the_plain_types() -> None:
    assert Duration("1m") + Duration("30s") == timedelta(seconds=90)
    assert Size("1kB") * 2 == 2000
    assert f"{Size('1kB')}, {Duration('90s')}" == "1kB, 1m30s"
    assert Duration(Duration("5s")) == Duration("5s")
    assert Size(Size("5kB")) == 5000
