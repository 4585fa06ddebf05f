"""A log line, and how it looks: aligned columns for people, one JSON object for machines. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct


class LogLine(Struct, frozen=True, kw_only=True):
    """One log line, redacted: what every destination gets. Its values are plain JSON values."""

    at_s: float
    """Seconds of Unix time."""
    level: str
    """"debug", "info", "warning", "error", "critical", or the name of a level of the application's own."""
    logger: str
    message: str
    event: str | None = None
    """The wire name, where it tells of an event of the product."""
    fields: dict[str, object] = {}
    """The run's (job, job_id, queue, attempt, schedule, slot, trace_id), then what the line itself was given."""
    said: frozenset[str] = frozenset()
    """Fields that the message tells already."""
    exception: str | None = None
    """The traceback, and a stack that was asked for."""

    @property
    def time(self) -> datetime:
        """When it was said, in UTC."""
        return datetime.fromtimestamp(self.at_s, UTC)

    def json(self) -> str:
        """It as one line of JSON, as destinations with `format: json` have it."""
        return json_line(self)


Renderer = Callable[[LogLine], str]


def json_line(line: LogLine) -> str:
    """One object with time (UTC), level, logger, message, event, the fields, and exception. Always pure ASCII.

    A field that has the name of one of these gets an underscore behind its name.
    """
    shown: dict[str, object] = {
        "time": _utc(line.at_s),
        "level": line.level,
        "logger": line.logger,
        "message": line.message,
    }
    if line.event is not None:
        shown["event"] = line.event
    for name, value in line.fields.items():
        if value is not None:
            shown[f"{name}_" if name in _RESERVED else name] = value
    if line.exception:
        shown["exception"] = line.exception
    return _ENCODE(shown)


# Made once: making an encoder costs more than a line.
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_RESERVED = frozenset({"time", "level", "logger", "message", "event", "exception"})

_DIM, _BOLD, _RESET = "\x1b[2m", "\x1b[1m", "\x1b[0m"
_COLOURS = {"debug": _DIM, "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[41m"}
_PLAIN = re.compile(r"[^\s\"'=]+")
# All but tab and newline: a name or a payload must not be able to paint on or reprogram somebody's terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MESSAGE_WIDTH = 52
_ACCIDENT = 3  # so short a text may stand in a message without being meant
_OWN = "workfleet"


class ConsoleLine:
    """Local time, level, message, then what the message does not say as `key=value`. Colour only when told."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour

    def __call__(self, line: LogLine) -> str:
        pairs = {name: value for name, value in line.fields.items() if not _told(line, name, value)}
        if line.logger.partition(".")[0] != _OWN:
            pairs["logger"] = line.logger
        message = _safe(line.message)
        told = " ".join(f"{self._paint(_DIM, _safe(name) + '=')}{_pair(value)}" for name, value in pairs.items())
        if told and "\n" not in message:
            message = message.ljust(_MESSAGE_WIDTH)
        level = self._paint(_COLOURS.get(line.level, ""), line.level.ljust(8))
        parts = [self._paint(_DIM, _local(line.at_s)), level, message, told]
        text = " ".join(part for part in parts if part)
        return f"{text}\n{_safe(line.exception)}" if line.exception else text

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colour and colour else text


def instant_text(ms: int) -> str:
    """An instant as people read it: ISO 8601 in UTC, with milliseconds only where there are any."""
    precision = "milliseconds" if ms % 1000 else "seconds"
    at = datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
    return at.isoformat(timespec=precision).replace("+00:00", "Z")


def kept_text(line: LogLine) -> str:
    """The line as it is kept with its job, which is no news there: time, level, logger, message, and its own fields."""
    own = {name: value for name, value in line.fields.items() if name not in RUN_FIELDS}
    pairs = [f"{name}={_pair(value)}" for name, value in own.items() if value is not None]
    text = " ".join([_utc(line.at_s), line.level.ljust(8), f"{line.logger}:", line.message, *pairs])
    return f"{text}\n{line.exception}" if line.exception else text


RUN_FIELDS = frozenset({"job", "job_id", "queue", "attempt", "schedule", "slot", "trace_id", "span_id"})
"""What all lines of a run have in common."""


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _local(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _told(line: LogLine, name: str, value: object) -> bool:
    """Whether a person has read this already, or there is nothing to read."""
    if name in line.said or value is None or value is False or value == "" or value == [] or value == {}:
        return True
    return (
        name != "job_id"
        and line.event is not None
        and isinstance(value, str)
        and len(value) > _ACCIDENT
        and value in line.message
    )


def _pair(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _safe(text) if _PLAIN.fullmatch(text) else _safe(json.dumps(text, ensure_ascii=False))


def _safe(text: str) -> str:
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
