"""The one handler of `logging`: every record becomes a line without secrets, and goes to each destination that wants
it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from workfleet.events import LogFailed

from .context import context_fields
from .options import OWN_LOGGER, Thresholds
from .outlets import Outlet, last_resort
from .redaction import Redactor
from .rendering import LogLine, json_line

READY = "workfleet_line"
"""The attribute of a record that has its line already."""
_KNOWN = 1_000
_ROOT = "root"
_NONE: frozenset[str] = frozenset()


class Lines:
    """Makes lines of records. `context` are facts of where it is said, beside those of the run that is bound there."""

    def __init__(self, redactor: Redactor, context: Callable[[], Mapping[str, object]] | None) -> None:
        self._redactor, self._context = redactor, context
        self._formatter = logging.Formatter()

    def of(self, record: logging.LogRecord) -> LogLine:
        """Never raises: a log call must not fail the code that makes it."""
        try:
            return self._whole(record)
        except Exception as error:  # noqa: BLE001 - the boundary around what users give, and what their context is
            return self._unmade(record, error)

    def _whole(self, record: logging.LogRecord) -> LogLine:
        facts = record.__dict__
        own = type(facts.get("workfleet")) is dict
        given = facts["workfleet"] if own else _extras(facts)
        said = facts.get("workfleet_said")
        around = {} if self._context is None else self._context()
        trace = self._trace(record)
        return LogLine(
            at_s=record.created,
            level=record.levelname.lower(),
            logger=record.name or _ROOT,
            message=self._redactor.text(_message(record)),
            event=facts.get("workfleet_event") if own else None,
            fields=self._redactor.fields({**around, **context_fields(), **given}),
            said=said if isinstance(said, frozenset) else _NONE,
            exception=self._redactor.text(trace) if trace else None,
        )

    def _unmade(self, record: logging.LogRecord, error: Exception) -> LogLine:
        kind = type(error).__name__
        try:
            message = f"{self._redactor.text(_message(record))} (no more of this line can be made: {kind})"
        except Exception:  # noqa: BLE001 - as above. Without redaction nothing of it is told
            message = f"(no such line can be made: {kind})"
        level, logger = str(record.levelname).lower(), str(record.name or _ROOT)
        return LogLine(at_s=record.created, level=level, logger=logger, message=message)

    def _trace(self, record: logging.LogRecord) -> str | None:
        parts = [self._formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
        if record.exc_text and not parts:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(record.stack_info)
        return "\n".join(parts) or None


class Router(logging.Handler):
    """Gives lines out. `keep` keeps those of runs that reach `keep_from` with their job."""

    def __init__(
        self,
        outlets: Sequence[Outlet],
        lines: Lines,
        thresholds: Thresholds,
        *,
        keep: Callable[[LogLine], None] | None,
        keep_from: int,
    ) -> None:
        super().__init__()
        self._outlets, self._lines, self._thresholds = outlets, lines, thresholds
        self._keep, self._keep_from = keep, keep_from
        self._levels: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        made = record.__dict__.get(READY)
        line = made if isinstance(made, LogLine) else self._lines.of(record)
        try:
            self._give_out(line, record)
        except Exception as error:  # noqa: BLE001 - as in `Lines.of`: there may be anything in a record of others
            last_resort(f"a line of logger {line.logger} cannot be given out: {type(error).__name__}")

    def close_all(self, timeout_s: float) -> None:
        """Close the destinations, those first that still have something to tell. Each has its part of the time."""
        for outlet in reversed(self._outlets):
            outlet.close(timeout_s / len(self._outlets))

    def _give_out(self, line: LogLine, record: logging.LogRecord) -> None:
        usual = self._usual(line.logger)
        about = line.fields.get("destination") if line.event == LogFailed.wire_name else None
        heard = False
        for outlet in self._outlets:
            if record.levelno >= (usual if outlet.level is None else outlet.level) and outlet.name != about:
                outlet.take(line)
                heard = heard or not outlet.failing
        if about is not None and not heard:
            last_resort(json_line(line))
        if self._keep is not None and record.levelno >= self._keep_from and not _is_ours(line.logger):
            self._keep(line)

    def _usual(self, name: str) -> int:
        level = self._levels.get(name)
        if level is None:
            if len(self._levels) >= _KNOWN:
                self._levels.clear()
            level = self._levels[name] = self._thresholds.of_logger(name)
        return level


def _is_ours(logger: str) -> bool:
    return logger == OWN_LOGGER or logger.startswith(f"{OWN_LOGGER}.")


def _extras(facts: Mapping[str, object]) -> dict[str, object]:
    """What somebody gave as `extra`. What is named as ours and is not, is his."""
    return {name: value for name, value in facts.items() if name not in _ORDINARY}


def _message(record: logging.LogRecord) -> str:
    """A line that cannot be put together is told as it was given."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - the boundary around arguments and their __str__, which are user code
        return f"{_shown(record.msg)} with {_shown(record.args)} (no such line can be made: {type(error).__name__})"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - as above
        return f"<{type(value).__qualname__}: {type(error).__name__} in __repr__>"


# What every record has: the rest is what somebody gave as `extra`.
_ORDINARY = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
