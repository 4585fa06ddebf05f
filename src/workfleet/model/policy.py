"""How long to wait before a job runs again: retry policies as plain data that can be stored.

Full jitter (a uniform draw between 0 and the computed delay) is the default, because it spreads a burst of failures
best (Exponential Backoff and Jitter, AWS Architecture Blog, 2015). The random number comes from the caller."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from msgspec import Struct

from .durations import DurationLike, duration_ms

Kind = Literal["fixed", "linear", "exponential", "own"]
Jitter = Literal["full", "none"]


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
            # Beyond this many doublings every duration is above any cap; a larger power would only overflow.
            wait = round(self.first_ms * min(self.factor ** min(n - 1, 64), 2.0**64))
        wait = min(wait, self.cap_ms)
        return wait if self.jitter == "none" else round(wait * draw)


BackoffLike = Backoff | timedelta | str
_DAY_MS = 86_400_000


def exponential(first: DurationLike = "1s", *, cap: DurationLike = "10m", jitter: Jitter = "full") -> Backoff:
    """Doubling waits: `first`, 2 × `first`, 4 × `first`, up to `cap`."""
    return Backoff("exponential", duration_ms(first), duration_ms(cap), jitter)


def linear(first: DurationLike, *, cap: DurationLike = "1d", jitter: Jitter = "none") -> Backoff:
    """Growing waits: `first`, 2 × `first`, 3 × `first`, up to `cap`."""
    return Backoff("linear", duration_ms(first), duration_ms(cap), jitter)


def fixed(first: DurationLike, *, jitter: Jitter = "none") -> Backoff:
    """The same wait every time."""
    return Backoff("fixed", duration_ms(first), max(duration_ms(first), _DAY_MS), jitter)


def own_backoff(name: str) -> Backoff:
    """The waits that a function of the application gives: see `Module(backoffs=…)`."""
    return Backoff("own", 0, 0, "none", name=name)


def backoff_of(value: BackoffLike | None) -> Backoff:
    """A policy from what a user may write: a policy, a duration (fixed) or None (no wait)."""
    if value is None:
        return Backoff("fixed", 0, 0, "none")
    return value if isinstance(value, Backoff) else fixed(value)


DEFAULT_BACKOFF = Backoff("exponential", 1_000, 600_000, "full")
