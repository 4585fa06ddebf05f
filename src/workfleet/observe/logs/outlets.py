"""A destination that lines are written to. What fails there is isolated: it is counted, told once on the others, and
over when a line gets through again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TextIO

from workfleet.errors import ConfigError, Problem

from .options import STREAMS, Destination, LogFormat, level_of
from .places import FilePlace, Place, StreamPlace
from .rendering import ConsoleLine, LogLine, Renderer, json_line
from .streamed import Streamed
from .troubles import Tell, Troubles, reason_of
from .writers import has_room, on_standard_error

_LAST_S: Final = 0.05
"""How long the last resort waits for whoever reads standard error."""


class Outlet(Protocol):
    """A destination as the router sees it."""

    name: str
    level: int | None
    """None: that of the logger."""

    @property
    def failing(self) -> bool: ...

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
        self.name, self.level = name, level
        self._place, self._render, self._tell = place, render, tell
        self._troubles = Troubles(name, monotonic)

    @property
    def failing(self) -> bool:
        return self._troubles.failing

    def take(self, line: LogLine) -> None:
        try:
            self._place.put(f"{self._render(line)}\n".encode(errors="backslashreplace"))
        except (OSError, ValueError) as error:
            told = self._troubles.failed(error)
        else:
            told = self._troubles.worked()
        if told is not None:
            self._tell(told)

    def close(self, timeout_s: float) -> None:
        self._place.close()


def written(
    name: str,
    destination: Destination,
    usual: LogFormat,
    stream: TextIO | None,
    tell: Tell,
    monotonic: Callable[[], float],
) -> Outlet:
    """A destination of the settings, open. `stream` stands for standard error. Raises `ConfigError`."""
    level = None if destination.level is None else level_of(destination.level)
    if destination.to in STREAMS:
        there = sys.stdout if destination.to == "stdout" else stream or sys.stderr
        render = _renderer(destination.format or usual, terminal=there.isatty())
        if _has_descriptor(there):
            return Streamed(name, there, render, level, tell, monotonic)
        return Written(name, StreamPlace(there), render, level, tell, monotonic)
    place = _file(name, destination.to)
    # How a person wants to see them is no matter of a file that a machine reads.
    render = _renderer(destination.format or "auto", terminal=place.is_terminal())
    return Written(name, place, render, level, tell, monotonic)


def last_resort(text: str) -> None:
    """A line on standard error, whatever became of it, unless its reader stands still: nobody else is left to tell."""
    if has_room(2):
        on_standard_error(text, _LAST_S)


def _file(name: str, to: str | Path) -> FilePlace:
    try:
        return FilePlace(Path(to).absolute())
    except OSError as error:
        message = f"cannot be written to: {reason_of(error)}"
        raise ConfigError(Problem(f"log.destinations.{name}.to", message, str(to))) from None


def _has_descriptor(stream: TextIO) -> bool:
    try:
        stream.fileno()
    except (AttributeError, OSError, ValueError):  # a stream in memory
        return False
    return True


def _renderer(wanted: LogFormat, *, terminal: bool) -> Renderer:
    if wanted == "json" or (wanted == "auto" and not terminal):
        return json_line
    return ConsoleLine(colour=_colour(terminal=terminal))


def _colour(*, terminal: bool) -> bool:
    """As https://no-color.org and https://force-color.org have it."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
