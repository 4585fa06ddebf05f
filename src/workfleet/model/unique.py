"""`Unique`: how long a job holds its key, and what becomes of a newcomer, as users write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .durations import DurationLike, duration_ms
from .jobs import UniqueRule

_UNTIL = ("finished", "started")
_ON_CONFLICT = ("keep", "replace", "debounce")


@dataclass(frozen=True)
class Unique:
    """`unique=Unique("{data.sha}", until="started")`: at most one job of the app holds the key at a time.

    `until` it has finished (default), or until it is first claimed; or, with `window`, for that long after it was
    enqueued, whatever becomes of it. `on_conflict` says what a newcomer does to a holder that was never claimed:
    "keep" it, "replace" its payload and options in its place, or "debounce": replace it and start its delay anew.
    With `exclusive` and `until="started"` one job of the key runs and one waits.

    Raises ValueError for statements that contradict each other."""

    key: str
    until: Literal["finished", "started"] | None = None
    window: DurationLike | None = None
    on_conflict: Literal["keep", "replace", "debounce"] = "keep"
    exclusive: bool = False

    def __post_init__(self) -> None:
        for name, value, words in (
            ("until", self.until or "finished", _UNTIL),
            ("on_conflict", self.on_conflict, _ON_CONFLICT),
        ):
            if value not in words:
                raise ValueError(f"{name}={value!r}: it is one of {', '.join(map(repr, words))}")
        if not isinstance(self.exclusive, bool):
            raise ValueError(f"exclusive={self.exclusive!r}: it is True or False")
        if self.window is not None and self.until is not None:
            raise ValueError("window= and until= both say how long the key is held: give one of them")
        if self.window is not None and duration_ms(self.window) == 0:
            raise ValueError(f"window={self.window!r}: a key that is held for no time holds nothing back")
        if self.exclusive and self.until != "started":
            raise ValueError('exclusive=True lets one wait while one runs: it needs until="started"')

    @property
    def rule(self) -> UniqueRule:
        """The rule as it is stored with the job."""
        window_ms = 0 if self.window is None else duration_ms(self.window)
        return UniqueRule(self.until or "finished", window_ms, self.on_conflict, self.exclusive)
