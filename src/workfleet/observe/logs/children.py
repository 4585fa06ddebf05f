"""Lines of a pool's child on their way to its parent, who gives them to the destinations: one JSON document a line, on
a pipe that it reads anyway, so that what a killed child said last is not lost."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

import msgspec

from .places import PipePlace
from .rendering import LogLine, json_line

_MARK: Final = '{"workfleet_child":'
_LONGEST: Final = 15_000
"""Bytes: the parent splits what is longer than 16 KiB."""
_MOST_FIELDS: Final = 50
_LONGEST_NAME: Final = 100
"""Of a line that is too long."""
_RESERVED: Final = ("workfleet_child", "time", "level", "logger", "message", "event", "exception")


class ChildOutlet:
    """Every line goes to the parent, whatever the destinations want: the levels of loggers have judged it."""

    def __init__(self, fd: int) -> None:
        self.name, self.failing = "parent", False
        self.level: int | None = 0
        self._place = PipePlace(fd)

    def take(self, line: LogLine) -> None:
        try:
            self._place.put(sent(line).encode(errors="backslashreplace") + b"\n")
        except OSError:  # the parent has gone, and this process goes with it
            pass

    def close(self, timeout_s: float) -> None:
        self._place.close()


def sent(line: LogLine) -> str:
    """A line as it travels. What is too long is shortened until it fits."""
    text, most = _encoded(line), 8_000
    while len(text) > _LONGEST and most > 10:
        line = _shortened(line, most)
        text, most = _encoded(line), most // 2
    return text


def received(text: str) -> tuple[str, LogLine] | None:
    """What was printed before a child's line in the same line, and that line; None where there is none."""
    before, mark, rest = text.partition(_MARK)
    if not mark:
        return None
    try:
        said: dict[str, Any] = json.loads(mark + rest)
        return before, LogLine(
            at_s=datetime.fromisoformat(said["time"]).timestamp(),
            level=str(said["level"]),
            logger=str(said["logger"]),
            message=str(said["message"]),
            event=said.get("event"),
            fields={name: value for name, value in said.items() if name not in _RESERVED},
            exception=said.get("exception"),
        )
    except (ValueError, KeyError, TypeError):  # somebody else prints so
        return None


def _encoded(line: LogLine) -> str:
    return f"{_MARK}1,{json_line(line)[1:]}"


def _shortened(line: LogLine, most: int) -> LogLine:
    fields = {
        name[:_LONGEST_NAME]: value if len(text := _text(value)) <= most else f"{text[:most]}…"
        for name, value in list(line.fields.items())[:_MOST_FIELDS]
    }
    trace = line.exception
    return msgspec.structs.replace(
        line,
        message=line.message if len(line.message) <= most else f"{line.message[:most]}…",
        fields=fields,
        # Its end says most.
        exception=trace if trace is None or len(trace) <= most else f"…{trace[-most:]}",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
