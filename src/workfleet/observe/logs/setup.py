"""Takes over the logging of a process that is ours: one handler, on standard error, for product and user lines alike.

Never runs on import, and never in a process that a user runs himself. Settings are read elsewhere.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TextIO

from workfleet.errors import UsageError

from .context import context_fields
from .redaction import Redactor
from .rendering import ConsoleLine, Line, Renderer, json_line

LogFormat = Literal["auto", "console", "json"]
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """`auto` is console where standard error is a terminal, else JSON lines. `levels` are per logger name."""

    format: LogFormat = "auto"
    level: str = "info"
    levels: Mapping[str, str] = field(default_factory=dict)
    redact: bool = True
    redact_keys: tuple[str, ...] = ()
    """Further names whose values are secrets."""
    colour: bool | None = None
    """None: on a terminal, unless NO_COLOR is set."""


class LogSetup:
    """What `configure_logging` changed in `logging`; `close()` puts it back."""

    def __init__(self, root: logging.Logger, handler: logging.Handler, levels: Mapping[str, int]) -> None:
        self._root, self._handler = root, handler
        self._before = {name: logging.getLogger(name).level for name in levels}
        self._others = root.handlers[:]
        root.handlers[:] = [handler]
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        # Else warnings would stand as bare text between the lines that a machine reads.
        logging.captureWarnings(True)

    def close(self) -> None:
        """Write out what is buffered, and restore handlers and levels."""
        self._handler.flush()
        self._root.handlers[:] = self._others
        for name, level in self._before.items():
            logging.getLogger(name).setLevel(level)
        logging.captureWarnings(False)


def configure_logging(options: LogOptions, *, stream: TextIO | None = None, user_code: bool = True) -> LogSetup:
    """Route all logging of this process to `stream` (standard error). Raises UsageError for an unknown level or format.

    `user_code=False` leaves structlog alone and unimported, for a process that runs none: the supervisor.
    """
    target = sys.stderr if stream is None else stream
    levels = {"": _level(options.level), **{name: _level(level) for name, level in options.levels.items()}}
    root = logging.getLogger()
    handler = logging.StreamHandler(target)
    if user_code:
        from .bridge import route_structlog

        route_structlog()
    redactor = Redactor(options.redact_keys, enabled=options.redact)
    handler.setFormatter(_Formatter(_renderer(options, target), redactor))
    return LogSetup(root, handler, levels)


class _Formatter(logging.Formatter):
    """A record of whatever origin becomes a `Line`, loses its secrets and is rendered."""

    def __init__(self, render: Renderer, redactor: Redactor) -> None:
        super().__init__()
        self._render, self._redactor = render, redactor

    def format(self, record: logging.LogRecord) -> str:
        facts = record.__dict__
        given: dict[str, object] = facts.get("workfleet") or {
            name: value for name, value in facts.items() if name not in _ORDINARY
        }
        fields = self._redactor.fields({**context_fields(), **given})
        trace = self._trace(record)
        return self._render(
            Line(
                at_s=record.created,
                level=record.levelname.lower(),
                logger=record.name,
                message=self._redactor.text(record.getMessage()),
                event=facts.get("workfleet_event"),
                fields=fields,
                said=facts.get("workfleet_said", frozenset()),
                trace=self._redactor.text(trace) if trace else None,
            )
        )

    def _trace(self, record: logging.LogRecord) -> str | None:
        parts = [self.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
        if record.stack_info:
            parts.append(record.stack_info)
        return "\n".join(parts) or None


# What every record has: the rest is what somebody gave as `extra`.
_ORDINARY = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "workfleet",
    "workfleet_event",
    "workfleet_said",
}


def _level(name: str) -> int:
    level = _LEVELS.get(name.lower())
    if level is None:
        raise UsageError(f"{name!r} is no log level: use one of {', '.join(_LEVELS)}")
    return level


def _renderer(options: LogOptions, stream: TextIO) -> Renderer:
    terminal = stream.isatty()
    chosen = options.format
    if chosen == "auto":
        chosen = "console" if terminal else "json"
    if chosen == "json":
        return json_line
    if chosen != "console":
        raise UsageError(f"{chosen!r} is no log format: use auto, console or json")
    colour = options.colour
    if colour is None:
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return ConsoleLine(colour=colour)
