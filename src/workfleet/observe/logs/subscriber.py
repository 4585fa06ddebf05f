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

from workfleet.errors import LAST_WORDS
from workfleet.events import ChildPrinted, Event, JobSettled, RunsUnlogged

from .children import received
from .options import LEVELS
from .own import as_record
from .rendering import instant_text
from .router import READY

MOST_RUNS = 100
"""Runs that end well in a second and have a line each. A line costs more than a short run does."""
UNKNOWN_MS = 10_000
_MOST_NAMES = 1_000
_BACK_S = 5
"""Runs are told of in the order in which the store had their ends, so that seconds overlap."""


class LogSubscriber:
    """Logs events to `workfleet.<first part of the wire name>`, such as `workfleet.job`, at their severity."""

    def __init__(self) -> None:
        self._runs = _Runs()

    def route(self, kind: type[Event]) -> Callable[[Any], None]:
        """What logs the events of a class."""
        if kind is ChildPrinted:
            return _Printed().log
        return self._runs.log if kind is JobSettled else _kind(kind).log


class _Printed:
    """Logs what children print. A line that a child has logged is its own again: in its own time, under its logger, at
    its level. What else is printed is told as it is."""

    def __init__(self) -> None:
        self._kind = _kind(ChildPrinted)
        self._root = logging.getLogger()

    def log(self, event: ChildPrinted) -> None:
        found = received(event.line)
        if found is None:
            self._kind.log(event)
            return
        before, line = found
        if before:
            self._kind.log(msgspec.structs.replace(event, line=before))
        line = msgspec.structs.replace(line, fields={**line.fields, "pool": event.pool, "pid": event.pid})
        record = as_record(line)
        record.__dict__[READY] = line
        # Not by its logger: names that children make up would stay here for good. The child's levels have judged it.
        self._root.handle(record)


class _Runs:
    """Logs the ends of runs. Of those that end well, the first `MOST_RUNS` of a second have lines, and one line says
    that there are more; with level debug all have. Of jobs that wait for a worker that knows them, a name has a line in
    `UNKNOWN_MS`, and the next one says of how many there was none."""

    def __init__(self) -> None:
        self._settled, self._unlogged = _kind(JobSettled), _kind(RunsUnlogged)
        self._second = self._lines = 0
        self._unknown: dict[str, list[int]] = {}
        """By name: when it had a line last, and how many had none since."""

    def log(self, event: JobSettled) -> None:
        logger = self._settled.logger
        if event.outcome == "unknown_job" and event.state == "delayed":
            self._log_unknown(event)
            return
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

    def _log_unknown(self, event: JobSettled) -> None:
        if len(self._unknown) > _MOST_NAMES:
            self._unknown.clear()  # names are anybody's
        told = self._unknown.setdefault(event.name, [event.ended_ms - UNKNOWN_MS, 0])
        if 0 <= event.ended_ms - told[0] < UNKNOWN_MS:
            told[1] += 1
            return
        alike, told[:] = told[1], (event.ended_ms, 0)
        self._settled.log(msgspec.structs.replace(event, alike=alike) if alike else event)


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
        event = _without_last_words(event)
        facts = event.fields()
        facts.pop("last_words", None)
        stack = facts.pop("stack", None)
        usual = {name for name, default in self.defaults.items() if facts.get(name) == default}
        extra = {
            "workfleet": _fields(facts),
            "workfleet_event": event.wire_name,
            "workfleet_said": self.said | usual,
        }
        # Not `logger.log`: it looks up the caller's source line, which is always this one.
        name = self.logger.name
        record = self.logger.makeRecord(name, level, __name__, 0, event.message(), (), None, extra=extra)
        if isinstance(stack, str) and stack:
            record.stack_info = stack
        self.logger.handle(record)


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


def _without_last_words(event: Event) -> Event:
    """What a child said last is in the log already, line by line, and once is enough."""
    cut: dict[str, object] = {}
    for name in _MAY_QUOTE:
        said = getattr(event, name, None)
        if said is not None and LAST_WORDS in said:
            cut[name] = said.partition(LAST_WORDS)[0]
    return msgspec.structs.replace(event, **cut) if cut else event


_MAY_QUOTE = ("error", "reason")
"""Facts that may be the text of an exception."""


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
