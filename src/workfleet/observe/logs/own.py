"""A destination of the application's own: a function or a handler that is given each line, in a thread of its own.

Nothing waits for it. What it does not keep up with is dropped and counted, and what it raises harms nobody else."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Final

from workfleet.events import LogDropped, LogFailed, LogRecovered

from .options import LEVELS, OwnDestination, level_of
from .rendering import LogLine
from .troubles import AGAIN_S, Tell

MOST_WAITING: Final = 10_000
_INSIDE: ContextVar[bool] = ContextVar("workfleet_log_destination", default=False)
"""Code of a destination runs here: the lines that it says itself go to no such destination, or it would go on for
ever."""


class Own:
    """One of them, with its thread and what waits for it."""

    def __init__(
        self, own: OwnDestination, tell: Tell, monotonic: Callable[[], float], *, most: int = MOST_WAITING
    ) -> None:
        self.name, self.failing = own.name, False
        self.level = None if own.level is None else level_of(own.level)
        self._own, self._tell, self._monotonic, self._most = own, tell, monotonic, most
        self._waiting: SimpleQueue[LogLine | None] = SimpleQueue()
        self._pid = os.getpid()
        self._dropped = 0
        """Only the threads that say lines count it, one at a time; what of it was told, only the own thread knows."""
        self._told_dropped = 0
        self._behind = False
        self._lost = 0
        self._told_at: float | None = None
        self._send = _sender(own)
        self._thread = threading.Thread(target=self._serve, name=f"workfleet-log-{own.name}", daemon=True)
        self._thread.start()

    def take(self, line: LogLine) -> None:
        if _INSIDE.get() or os.getpid() != self._pid:  # a forked process has no such thread
            return
        if self._waiting.qsize() < self._most:
            self._waiting.put(line)
            return
        self._dropped += 1
        if not self._behind:
            self._behind = True
            self._tell(LogDropped(destination=self.name, waiting=self._most))

    def close(self, timeout_s: float) -> None:
        """Those that wait are sent within the time; the rest is told as lost."""
        if os.getpid() != self._pid:
            return
        self._waiting.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            left = max(self._waiting.qsize(), 1)
            error = f"it had not taken them {timeout_s:g} s after the end"
            self._tell(LogFailed(destination=self.name, error=error, lost=self._lost + left))

    def _serve(self) -> None:
        _INSIDE.set(True)
        while (line := self._waiting.get()) is not None:
            try:
                self._send(line)
            except BaseException as error:  # noqa: BLE001 - the boundary around user code in a thread of its own: told, and the next line is tried
                self._lost += 1
                self._tell_failed(error)
            if self._behind and self._waiting.empty():
                self._caught_up()
        if self._behind:
            self._caught_up()
        if self._lost:
            self._tell(LogFailed(destination=self.name, error="and then this process ended", lost=self._lost))
        self._end()

    def _caught_up(self) -> None:
        self._behind = False
        lost, self._told_dropped = self._dropped - self._told_dropped, self._dropped
        self._tell(LogRecovered(destination=self.name, lost=lost))

    def _tell_failed(self, error: BaseException) -> None:
        now = self._monotonic()
        if self._told_at is None or now - self._told_at >= AGAIN_S:
            self._told_at = now
            lost, self._lost = self._lost, 0
            self._tell(LogFailed(destination=self.name, error=_shown(error), lost=lost))

    def _end(self) -> None:
        if isinstance(self._own.send, logging.Handler):
            try:
                self._own.send.close()
            except Exception as error:  # noqa: BLE001 - as above: the process ends anyway
                self._tell(LogFailed(destination=self.name, error=_shown(error), lost=0))


def _sender(own: OwnDestination) -> Callable[[LogLine], object]:
    send = own.send
    if not isinstance(send, logging.Handler):
        return send
    handler = send
    # It would print its trouble to standard error and go on: here it is told like everybody's.
    setattr(handler, "handleError", _raise_it)  # noqa: B010 - a method of this very handler

    def give(line: LogLine) -> None:
        record = as_record(line)
        if record.levelno >= handler.level:
            handler.handle(record)

    return give


def _raise_it(record: logging.LogRecord) -> None:
    raise  # noqa: PLE0704 - logging calls this inside its `except`


def as_record(line: LogLine) -> logging.LogRecord:
    """The line as handlers of others know them: its fields are attributes, where no attribute has that name."""
    plain = {name: value for name, value in line.fields.items() if name not in _ORDINARY}
    record = logging.makeLogRecord(plain)
    record.name, record.msg, record.created = line.logger, line.message, line.at_s
    record.msecs = line.at_s % 1 * 1000
    record.levelno = LEVELS.get(line.level, logging.getLevelNamesMapping().get(line.level.upper(), logging.INFO))
    record.levelname = line.level.upper()
    record.exc_text = line.exception
    return record


_ORDINARY = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def _shown(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as broken:  # noqa: BLE001 - the exception's own code is user code
        return f"{type(error).__name__} (its text cannot be read: {type(broken).__name__})"
