"""What the sources said: one value for one setting, under the name that was written and with where it was written.

Pure values. Knows no source and no setting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

from workfleet.errors import Problem

SettingPath: TypeAlias = tuple[str, ...]
"""Field names from the root, such as ("lock", "default_ttl")."""


class Source(IntEnum):
    """Where a value comes from; the higher wins."""

    DEFAULT = 0
    CODE = 1
    FALLBACK = 2
    """A variable that is not ours by name, used where nothing of ours is given (APP_VERSION)."""
    FILE = 3
    ENV_FILE = 4
    ENV_LOCAL = 5
    ENVIRONMENT = 6
    COMMAND_LINE = 7

    @property
    def is_environment(self) -> bool:
        """Whether its names are environment names, in which a job's `-` and `.` are `_`."""
        return self in (Source.FALLBACK, Source.ENV_FILE, Source.ENV_LOCAL, Source.ENVIRONMENT)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: `place` is for people (".env.local:3"), `name` is the name used there."""

    source: Source
    place: str
    name: str

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave for one setting. `raw` is what was written, `value` what is validated."""

    path: SettingPath
    # Not in the repr: it may be a password.
    value: Any = field(repr=False)
    raw: Any = field(repr=False)
    origin: Origin


@dataclass(frozen=True, slots=True)
class Plain:
    """A scalar of a YAML file without quotes: `text` as written, `value` as YAML understands it (0123 is 83)."""

    text: str
    value: Any


@dataclass
class Findings:
    """What reading the settings found, all of it before anything is raised."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def problem(self, name: str, message: str, value: str | None = None, origin: Origin | str | None = None) -> None:
        """Note something that stops the start. `value` must be masked already."""
        self.problems.append(Problem(name, message, value, str(origin) if origin is not None else None))

    def warn(self, text: str) -> None:
        """Note something that an operator should know."""
        if text not in self.warnings:
            self.warnings.append(text)


def fold(name: str) -> str:
    """A name as environment names spell it, case aside: `Cleanup.nightly` and `cleanup-nightly` are one."""
    return re.sub(r"\W", "_", name.casefold())
