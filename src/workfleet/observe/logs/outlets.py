"""A destination that lines are written to. What fails there is isolated: it is counted, told once on the others, and
over when a line gets through again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TextIO

from workfleet.errors import ConfigError, Problem
from workfleet.events import Event, LogFailed, LogRecovered

from .options import STREAMS, Destination, LogFormat, level_of
from .places import FilePlace, Place, StreamPlace
from .rendering import ConsoleLine, LogLine, Renderer, json_line

Tell = Callable[[Event], None]
AGAIN_S: Final = 60.0
"""Troubles of a destination that come and go are told of at most so often."""


class Outlet(Protocol):
    """A destination as the router sees it."""

    name: str
    level: int | None
    """None: that of the logger."""
    failing: bool

    def take(self, line: LogLine) -> None:
        """Write or queue it. Never raises."""
        ...

    def close(self, timeout_s: float) -> None:
        """Write out what waits, as far as the time allows."""
        ...


class Written:
    """Text lines at one place."""

    def __init__(
        self, name: str, place: Place, render: Renderer, level: int | None, tell: Tell, monotonic: Callable[[], float]
    ) -> None:
        self.name, self.level, self.failing = name, level, False
        self._place, self._render, self._tell, self._monotonic = place, render, tell, monotonic
        self._lost = 0
        self._told = False
        self._told_at: float | None = None

    def take(self, line: LogLine) -> None:
        try:
            self._place.put(f"{self._render(line)}\n".encode(errors="backslashreplace"))
        except (OSError, ValueError) as error:
            self._lost += 1
            if not self.failing:
                self.failing = True
                self._tell_failed(error)
        else:
            if self.failing:
                self.failing = False
                self._tell_recovered()

    def close(self, timeout_s: float) -> None:
        self._place.close()

    def _tell_failed(self, error: Exception) -> None:
        now = self._monotonic()
        self._told = self._told_at is None or now - self._told_at >= AGAIN_S
        if self._told:
            self._told_at = now
            self._tell(LogFailed(destination=self.name, error=_reason(error), lost=self._lost))

    def _tell_recovered(self) -> None:
        if self._told:
            lost, self._lost = self._lost, 0
            self._tell(LogRecovered(destination=self.name, lost=lost))


def written(
    name: str,
    destination: Destination,
    usual: LogFormat,
    stream: TextIO | None,
    tell: Tell,
    monotonic: Callable[[], float],
) -> Written:
    """A destination of the settings, open. `stream` stands for standard error. Raises `ConfigError`."""
    place = _place(name, destination.to, stream)
    level = None if destination.level is None else level_of(destination.level)
    # How a person wants to see them is no matter of a file that a machine reads.
    form = destination.format or (usual if destination.to in STREAMS else "auto")
    return Written(name, place, _renderer(form, place), level, tell, monotonic)


def last_resort(text: str) -> None:
    """A line on standard error, whatever became of it: nobody else is left to tell."""
    try:
        os.write(2, f"{text}\n".encode(errors="backslashreplace"))
    except OSError:
        pass


def _place(name: str, to: str | Path, stream: TextIO | None) -> Place:
    if to in STREAMS:
        return StreamPlace(sys.stdout if to == "stdout" else stream or sys.stderr)
    path = Path(to).absolute()
    try:
        return FilePlace(path)
    except OSError as error:
        message = f"cannot be written to: {_reason(error)}"
        raise ConfigError(Problem(f"log.destinations.{name}.to", message, str(to))) from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _renderer(wanted: LogFormat, place: Place) -> Renderer:
    terminal = place.is_terminal()
    if wanted == "json" or (wanted == "auto" and not terminal):
        return json_line
    return ConsoleLine(colour=_colour(terminal=terminal))


def _colour(*, terminal: bool) -> bool:
    """As https://no-color.org and https://force-color.org have it."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
