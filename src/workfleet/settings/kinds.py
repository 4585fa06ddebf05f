"""The kinds of values that settings have, each with its check and with what is allowed in plain words.

`allowed` is what error messages and the documentation say, so it stands beside the check. Knows no setting's name.
"""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from workfleet.model.limits import Rate
from workfleet.model.missed import missed_of
from workfleet.model.queue import rate_of, rate_text
from workfleet.units import Duration, Size


@dataclass(frozen=True)
class Checked:
    """Annotation metadata: run `check` on the parsed value; it returns the value or raises ValueError."""

    allowed: str
    check: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


class RateText:
    """A rate, read from text and written as text. It is no `str`, so that "none" is not taken for one."""

    __slots__ = ("rate",)

    def __init__(self, value: Any) -> None:
        self.rate: Rate = value.rate if isinstance(value, RateText) else rate_of(value)

    def __str__(self) -> str:
        return rate_text(self.rate)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        return core_schema.no_info_plain_validator_function(cls, serialization=written)


@dataclass(frozen=True)
class Note:
    """Annotation metadata of a group of settings: what a reader of `config show` has to know about it."""

    text: str


@dataclass(frozen=True)
class ByName:
    """Annotation metadata of a dict: its keys are names that the application declares, folded in environment names.

    `beside` is for entries that stand beside the section's own options: `pools: {images: {size: 4}}`.
    """

    beside: bool = False


@dataclass(frozen=True)
class MaskPassword:
    """Annotation metadata of a secret URL: only its password is hidden when it is shown."""


def said(override: BaseModel, can_be_off: set[str]) -> dict[str, Any]:
    """What was given to a model of overrides; None only for the options that it switches off."""
    given = (
        (name, getattr(override, name)) for name in type(override).model_fields if name in override.model_fields_set
    )
    return {name: value for name, value in given if value is not None or name in can_be_off}


def between(low: str, high: str) -> Checked:
    """A duration of at least `low` and at most `high`."""
    least, most = Duration(low), Duration(high)

    def check(value: Duration) -> Duration:
        if not least <= value <= most:
            raise ValueError(f"{value} is out of range")
        return value

    return Checked(f"a duration from {least} to {most}, such as '90s' or '1h30m'", check)


def at_least_size(low: str) -> Checked:
    """A size of `low` or more."""
    least = Size(low)

    def check(value: Size) -> Size:
        if value < least:
            raise ValueError(f"{value} is too small")
        return value

    return Checked(f"a size of at least {least}, such as '512MB' or '2GiB'", check)


def size_between(low: str, high: str) -> Checked:
    """A size of at least `low` and at most `high`."""
    least, most = Size(low), Size(high)

    def check(value: Size) -> Size:
        if not least <= value <= most:
            raise ValueError(f"{value} is out of range")
        return value

    return Checked(f"a size from {least} to {most}, such as '512kB' or '16MiB'", check)


def _time_zone(key: str) -> str:
    # UTC needs no data: a machine without time zone files must still be able to run.
    if key == "UTC":
        return key
    try:
        zoneinfo.ZoneInfo(key)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        if not known:
            raise ValueError("this machine has no time zone data: install the package tzdata, or use UTC") from None
        near = difflib.get_close_matches(key, sorted(known), n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no such time zone{hint}") from None
    return key


def _queue_name(name: str) -> str:
    if not name.strip() or ":" in name or not name.isprintable() or len(name) > 200:
        raise ValueError(f"{name!r} cannot be a queue's name")
    return name


def _queue_prefix(prefix: str) -> str:
    if not prefix.strip() or not prefix.isprintable() or len(prefix) > 200:
        raise ValueError(f"{prefix!r} cannot begin a key")
    if prefix == "wf" or prefix.startswith("wf:"):
        raise ValueError("the worker's own keys begin so")
    return prefix


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    # Bytes of the environment that are no UTF-8 arrive as lone surrogates, which no store and no log can write.
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ValueError("it holds bytes that are not UTF-8")
    return text


def _no_bool(value: Any) -> Any:
    # Python takes True for 1, so `processes: yes` in YAML would mean one process.
    if isinstance(value, bool):
        raise ValueError("that is true or false, not a number")
    return value


def _level(value: Any) -> Any:
    text = value.strip().lower() if isinstance(value, str) else value
    return "warning" if text == "warn" else text


def _log_place(text: str) -> str:
    text = _not_blank(text)
    # A mistyped "stderr" must not become a file.
    if text not in ("stderr", "stdout") and not any(sign in text for sign in "/\\."):
        raise ValueError(f"{text!r} is neither; a file in this folder is ./{text}")
    return text


def _path_text(value: Any) -> Any:
    # What is given as a path is meant as one.
    return f"{value.parent}/{value.name}" if isinstance(value, Path) else value


def _instant(text: str) -> str:
    datetime.fromisoformat(text)
    return text


def _day(text: str) -> str:
    return date.fromisoformat(text).isoformat()


def _missed(text: str) -> str:
    return str(missed_of(text))


NotBool = BeforeValidator(_no_bool)
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000), NotBool]
CountOrZero: TypeAlias = Annotated[int, Field(ge=0, le=1_000_000), NotBool]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535), NotBool]
Text: TypeAlias = Annotated[str, Checked("text that is not empty", _not_blank)]
TimeZone: TypeAlias = Annotated[str, Checked("an IANA time zone such as UTC or Europe/Berlin", _time_zone)]
QueueName: TypeAlias = Annotated[str, Checked("a queue's name, 1 to 200 printable characters without ':'", _queue_name)]
QueuePrefix: TypeAlias = Annotated[str, Checked("1 to 200 printable characters, such as 'bull'", _queue_prefix)]
RateLimit: TypeAlias = Annotated[
    RateText, Checked("a number of starts and a duration, such as '100/1m'", lambda rate: rate)
]
FilePath: TypeAlias = Annotated[Path, Checked("a path", lambda path: path)]
LogPlace: TypeAlias = Annotated[
    str, Checked("stderr, stdout, or the path of a file", _log_place), BeforeValidator(_path_text)
]
LogLevel: TypeAlias = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_level)]

Instant: TypeAlias = Annotated[
    str,
    Checked("a date and time such as 2026-12-24T18:00 (local in the schedule's zone) or 2026-12-24T18:00Z", _instant),
]
Day: TypeAlias = Annotated[str, Checked("a date such as 2026-12-24", _day)]
MissedText: TypeAlias = Annotated[str, Checked("once, skip, or catch_up(n) with n from 1 to 1000", _missed)]

Wait: TypeAlias = Annotated[Duration, between("0s", "365d")]
"""A pause or delay that may be none at all."""
Span: TypeAlias = Annotated[Duration, between("1ms", "365d")]
"""A limit on how long something takes."""
Tick: TypeAlias = Annotated[Duration, between("100ms", "1d")]
"""How often a loop does something: less than this would only burn the processor."""
