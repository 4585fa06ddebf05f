"""How long to wait before a job runs again: retry policies as plain data that can be stored.

Full jitter (a uniform draw between 0 and the computed delay) is the default, because it spreads a burst of failures
best (Exponential Backoff and Jitter, AWS Architecture Blog, 2015). The random number comes from the caller."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from msgspec import Struct

from .durations import DurationLike, duration_ms
from .names import plain_name

Kind = Literal["fixed", "linear", "exponential", "own"]
Jitter = Literal["full", "none"] | float
"""How much of a wait is drawn at random: all, nothing, or a share: 0.5 leaves half of it certain."""


class Backoff(Struct, frozen=True):
    """A wait per failed attempt, in milliseconds: `fixed` first, `linear` first × n, `exponential` first ×
    factor^(n-1), `own` what the application's function of that name says."""

    kind: Kind
    first_ms: int
    cap_ms: int
    jitter: Jitter = "full"
    factor: float = 2.0
    """Growth of an exponential backoff."""
    name: str = ""
    """The function of an `own` backoff. Where nobody knows it, the wait is as by default."""

    def delay_ms(self, failed_attempts: int, draw: float) -> int:
        """The wait after the nth failed attempt (from 1). `draw` is a random number in [0, 1)."""
        n = max(failed_attempts, 1)
        if self.kind == "own":
            return DEFAULT_BACKOFF.delay_ms(n, draw)
        if self.kind == "fixed":
            wait = self.first_ms
        elif self.kind == "linear":
            wait = self.first_ms * n
        else:
            # 64 doublings are above any cap; a larger power would only overflow.
            enough = math.ceil(64 / math.log2(self.factor)) if self.factor > 1 else 0
            wait = round(self.first_ms * min(self.factor ** min(n - 1, enough), 2.0**64))
        wait = min(wait, self.cap_ms)
        share = self.drawn
        return round(wait * (1 - share + share * draw)) if share else wait

    @property
    def drawn(self) -> float:
        """The share of a wait that is drawn at random, from 0 to 1."""
        if isinstance(self.jitter, str):
            return 1.0 if self.jitter == "full" else 0.0
        return self.jitter


BackoffLike = Backoff | timedelta | str
OwnBackoff = Callable[[int, BaseException | None], timedelta | str]
"""The wait after the nth failed attempt (from 1), and what it raised; None where nobody has the exception itself."""
_DAY_MS = 86_400_000
_LARGEST_FACTOR = 1_000


def exponential(
    first: DurationLike = "1s", *, cap: DurationLike = "10m", jitter: Jitter = "full", factor: float = 2.0
) -> Backoff:
    """Doubling waits: `first`, 2 × `first`, 4 × `first`, up to `cap`; or with another `factor`, 1 to 1,000."""
    return Backoff("exponential", duration_ms(first), duration_ms(cap), _jitter(jitter), _factor(factor))


def linear(first: DurationLike, *, cap: DurationLike = "1d", jitter: Jitter = "none") -> Backoff:
    """Growing waits: `first`, 2 × `first`, 3 × `first`, up to `cap`."""
    return Backoff("linear", duration_ms(first), duration_ms(cap), _jitter(jitter))


def fixed(first: DurationLike, *, jitter: Jitter = "none") -> Backoff:
    """The same wait every time."""
    return Backoff("fixed", duration_ms(first), max(duration_ms(first), _DAY_MS), _jitter(jitter))


def own_backoff(name: str) -> Backoff:
    """The waits that a function of the application gives: see `Module(backoffs=…)`. Raises ValueError."""
    return Backoff("own", 0, 0, "none", name=plain_name("backoff", name))


def _factor(factor: object) -> float:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= _LARGEST_FACTOR:
        raise ValueError(f"factor={factor!r}: each wait is 1 to {_LARGEST_FACTOR:,} times the one before")
    return float(factor)


def _jitter(jitter: object) -> Jitter:
    if jitter == "full" or jitter == "none":
        return "full" if jitter == "full" else "none"
    if isinstance(jitter, bool) or not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        raise ValueError(f"jitter={jitter!r}: it is 'full', 'none', or a share from 0 to 1 such as 0.5")
    return float(jitter)


def exception_name(kind: type[BaseException]) -> str:
    """What an exception's class is called in rules: its qualified name, "ValueError" or "shop.errors.Declined"."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def backoff_of(value: BackoffLike | None) -> Backoff:
    """A policy from what a user may write: a policy, a duration (fixed) or None (no wait). Raises ValueError."""
    if value is None:
        return Backoff("fixed", 0, 0, "none")
    if callable(value):
        raise ValueError(
            f"{value!r} is a function, which no job can carry: give own_backoff(name), and the function "
            "as Module(backoffs={name: …})"
        )
    return value if isinstance(value, Backoff) else fixed(value)


DEFAULT_BACKOFF = Backoff("exponential", 1_000, 600_000, "full")
