"""How often something fails lately, as one decaying number, and how long to wait before it is started again.

One number instead of a list of failures in a window (as in the Go library suture): each failure adds to it, and it
halves by itself with time, so that a long quiet run is forgiven and a crash loop is slowed down and recognised.
"""

from __future__ import annotations

from msgspec import Struct


class RestartPolicy(Struct, frozen=True, kw_only=True):
    """Waits from `first_ms`, doubling with the intensity up to `cap_ms`. `limit` is the intensity of a crash loop."""

    first_ms: int = 100
    cap_ms: int = 30_000
    half_life_ms: int = 60_000
    limit: float = 5.0


class FailureIntensity:
    """The failures of one thing. Instants are seconds of a monotonic clock."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._level = 0.0
        self._at = 0.0

    def failed(self, now: float, *, weight: float = 1.0) -> int:
        """Count a failure. Returns how many milliseconds to wait before the next start."""
        self._level = self.level(now) + weight
        self._at = now
        # 2**64 is above every cap; an exponent without a bound would overflow a float.
        return round(min(self._policy.first_ms * 2 ** min(max(self._level - 1, 0), 64), self._policy.cap_ms))

    def level(self, now: float) -> float:
        """The decayed number of failures."""
        elapsed_ms = max(now - self._at, 0) * 1000
        return float(self._level * 0.5 ** (elapsed_ms / self._policy.half_life_ms))

    def in_loop(self, now: float) -> bool:
        """Whether this is a crash loop. A hair below the limit counts: failures in a burst decay a little."""
        return self.level(now) > self._policy.limit - 0.5
