"""Every log line of the product: each event becomes one record of the standard library's `logging`. Nobody else logs.

Where the product owns the process, `setup` renders these records; in a user's own process his logging does. The facts
travel as one dict in the record's attribute `workfleet`, so that no field can collide with what a record has already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from string import Formatter as TextFormatter
from typing import Any

import msgspec
from msgspec import Struct

from workfleet.events import Event, JobSettled, RunsUnlogged

from .rendering import instant_text

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


MOST_RUNS = 100
"""Runs that end well in a second and have a line each. A line costs more than a short run does."""
_BACK_S = 5
"""Runs are told of in the order in which the store had their ends, so that seconds overlap."""


class LogSubscriber:
    """Logs events to `workfleet.<first part of the wire name>`, such as `workfleet.job`, at their severity."""

    def __init__(self) -> None:
        self._runs = _Runs()

    def route(self, kind: type[Event]) -> Callable[[Any], None]:
        """What logs the events of a class."""
        return self._runs.log if kind is JobSettled else _kind(kind).log


class _Runs:
    """Logs the ends of runs. Of those that end well, the first `MOST_RUNS` of a second have lines, and one line says
    that there are more; with level debug all have."""

    def __init__(self) -> None:
        self._settled, self._unlogged = _kind(JobSettled), _kind(RunsUnlogged)
        self._second = self._lines = 0

    def log(self, event: JobSettled) -> None:
        logger = self._settled.logger
        if event.severity() == "info" and not logger.isEnabledFor(logging.DEBUG):
            if not logger.isEnabledFor(logging.INFO):
                return
            second = event.ended_ms // 1000
            if not self._second - _BACK_S <= second <= self._second:
                self._second, self._lines = second, 0
            self._lines += 1
            if self._lines > MOST_RUNS:
                if self._lines == MOST_RUNS + 1:
                    self._unlogged.log(RunsUnlogged(most=MOST_RUNS))
                return
        self._settled.log(event)


class _Kind(Struct, frozen=True):
    """What is the same for all events of a class. A person need not read what is `said`, nor what is by default."""

    logger: logging.Logger
    level: int | None
    """None: each event of the class has its own."""
    said: frozenset[str]
    defaults: dict[str, object]

    def log(self, event: Event) -> None:
        """Log it, unless nobody wants to see its level."""
        level = LEVELS[event.severity()] if self.level is None else self.level
        if not self.logger.isEnabledFor(level):
            return
        facts = event.fields()
        usual = {name for name, default in self.defaults.items() if facts[name] == default}
        extra = {
            "workfleet": _fields(facts),
            "workfleet_event": event.wire_name,
            "workfleet_said": self.said | usual,
        }
        # Not `logger.log`: it looks up the caller's source line, which is always this one.
        name = self.logger.name
        self.logger.handle(self.logger.makeRecord(name, level, __name__, 0, event.message(), (), None, extra=extra))


def _kind(kind: type[Event]) -> _Kind:
    names = {name.split(".")[0] for _, name, _, _ in TextFormatter().parse(kind.text) if name}
    return _Kind(
        logger=logging.getLogger(f"workfleet.{kind.wire_name.partition('.')[0]}"),
        level=LEVELS[kind.level] if kind.severity is Event.severity else None,
        said=frozenset(names | ({"job"} if "name" in names else set())),
        defaults={
            field.name: field.default
            for field in msgspec.structs.fields(kind)
            if field.default is not msgspec.NODEFAULT
        },
    )


def _fields(facts: dict[str, object]) -> dict[str, object]:
    """An event's facts, those of a job under the names that a job's context has: job, job_id, slot."""
    fields: dict[str, object] = {}
    if "id" in facts and "name" in facts:
        fields["job"], fields["job_id"] = facts.pop("name"), facts.pop("id")
    slot_ms = facts.pop("slot_ms", None)
    if isinstance(slot_ms, int):
        fields["slot"] = instant_text(slot_ms)
    # What an event leaves open must not hide what the context knows.
    fields.update((name, value) for name, value in facts.items() if value is not None)
    return fields
