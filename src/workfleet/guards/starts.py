"""A sliding window of starts: at most so many within any time of a length, so that no burst at its edge doubles it.

Pure decisions over a value that can be stored. It must not know where that is kept or whose clock gives the time."""

from __future__ import annotations

from dataclasses import dataclass

_EXACT = 128

Starts = tuple[tuple[int, int], ...]
"""Instants in milliseconds, oldest first, and how many starts each stands for."""


@dataclass(frozen=True)
class Window:
    """At most `limit` starts within any `per_ms`. Up to 128 each has its own instant; more are put together, so that
    one frees its place up to a 128th of `per_ms` late, never early."""

    limit: int
    per_ms: int

    def take(self, starts: Starts, now_ms: int) -> tuple[Starts, int]:
        """Start one more now: the starts after that, and 0; or as they are, and in how many milliseconds the next place
        is free."""
        live = self.live(starts, now_ms)
        excess = sum(count for _, count in live) + 1 - self.limit
        if excess <= 0:
            return self.add(live, now_ms), 0
        for at_ms, count in live:
            excess -= count
            if excess <= 0:
                return live, at_ms + self.per_ms - now_ms
        raise AssertionError("a limit is 1 or more")

    def add(self, starts: Starts, now_ms: int) -> Starts:
        """Start one more, whether there is a place or not."""
        width = 1 if self.limit <= _EXACT else max(self.per_ms // _EXACT, 1)
        at_ms = -(-now_ms // width) * width
        same = sum(count for other_ms, count in starts if other_ms == at_ms)
        others = [each for each in starts if each[0] != at_ms]
        return tuple(sorted([*others, (at_ms, same + 1)]))

    def live(self, starts: Starts, now_ms: int) -> Starts:
        """The starts that still count. A clock that was set back leaves none in the future for longer than `per_ms`."""
        latest = now_ms + self.per_ms
        return tuple((min(at_ms, latest), count) for at_ms, count in starts if at_ms + self.per_ms > now_ms)
