"""What logging of a process is to be: levels, secrets, destinations. Values and their checks; settings are read
elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from workfleet.errors import UsageError

from .rendering import LogLine

LogFormat = Literal["auto", "console", "json"]
OWN_LOGGER = "workfleet"
"""What the loggers of the product's own lines are below."""
STREAMS = ("stderr", "stdout")
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where lines go: "stderr", "stdout", or a file. None: the level is that of all, and so is the format of a stream;
    that of a file is `auto`."""

    to: str | Path = "stderr"
    level: str | None = None
    format: LogFormat | None = None


class Takes(Protocol):
    """A function of the application's that is given each line, in a thread of its own. What it raises is told."""

    def __call__(self, line: LogLine, /) -> object: ...


@dataclass(frozen=True, kw_only=True)
class OwnDestination:
    """A destination of the application's own: a function, or a handler of `logging`."""

    name: str
    send: Takes | logging.Handler
    level: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """`auto` is console where the destination is a terminal, else JSON lines. `levels` are per logger name."""

    format: LogFormat = "auto"
    level: str = "info"
    levels: Mapping[str, str] = field(default_factory=dict)
    redact: bool = True
    redact_keys: tuple[str, ...] = ()
    """Further names whose values are secrets."""
    destinations: Mapping[str, Destination] = field(default_factory=lambda: {"stderr": Destination()})
    keep: str | None = None
    """The lowest level of lines that are kept with their job; None: none are."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Which lines go where. A destination's own level stands in the place of `usual`; what a logger of `named` does
    not say at all, no destination gets."""

    usual: int
    named: Mapping[str, int]
    shown: int
    """The lowest that a destination wants."""
    lowest: int
    """The same with what is kept with jobs, where no line of the product's own is."""

    @classmethod
    def of(cls, options: LogOptions, own: tuple[OwnDestination, ...] = ()) -> Thresholds:
        """Raises `UsageError` for a level that is none."""
        usual = level_of(options.level)
        wanted = [each.level for each in options.destinations.values()] + [each.level for each in own]
        levels = [usual if level is None else level_of(level) for level in wanted]
        shown = min(levels, default=usual)
        lowest = shown if options.keep is None else min(shown, level_of(options.keep))
        named = {name: level_of(level) for name, level in options.levels.items()}
        return cls(usual=usual, named=named, shown=shown, lowest=lowest)

    @property
    def of_loggers(self) -> dict[str, int]:
        """The levels that loggers are given, the root's under ""."""
        return {"": self.lowest, OWN_LOGGER: self.shown, **self.named}

    def of_logger(self, name: str) -> int:
        """The lowest level that a destination without one of its own gets of a logger."""
        while name:
            if name in self.named:
                return self.named[name]
            name = name.rpartition(".")[0]
        return self.usual


def level_of(name: str) -> int:
    """The number of a level's name. Raises `UsageError`."""
    level = LEVELS.get(name.lower())
    if level is None:
        raise UsageError(f"{name!r} is no log level: use one of {', '.join(LEVELS)}")
    return level
