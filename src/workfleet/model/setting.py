"""`setting("path")`: a value that a decorator names and that is only known at run time. Knows no settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting at a dotted path, such as `timezone` or `mail.give_up_after`.

    The application looks it up when it starts. Raises ValueError for what cannot be a path.
    """

    path: str

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ValueError(f"{self.path!r} is not the path of a setting such as 'mail.give_up_after'")

    def __str__(self) -> str:
        return f"setting({self.path!r})"


def setting(path: str) -> Setting:
    """Take an option's value from the settings: `@schedule(every=setting("mail.poll_every"))`."""
    return Setting(path)
