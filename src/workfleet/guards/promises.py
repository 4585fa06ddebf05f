"""When refused runs come again: no more of them at a time than there will be places, so that a thousand waiting jobs
are put off once each, and not all of them again and again."""

from __future__ import annotations

from collections import deque

from workfleet.ports.clock import Clock

from .starts import Window

_SWEPT_AT = 1_000


class Promises:
    """Of this process, by the window's name."""

    def __init__(self, window: Window, clock: Clock) -> None:
        self._window, self._clock = window, clock
        self._given: dict[str, deque[int]] = {}
        self._sweep_at = _SWEPT_AT

    def wait_ms(self, name: str, next_free_ms: int) -> int:
        """In how many milliseconds one more is to come, where the next place is free in `next_free_ms`."""
        now_ms = round(self._clock.monotonic() * 1000)
        given = self._given.setdefault(name, deque())
        _drop_past(given, now_ms)
        wait_ms = next_free_ms + len(given) // self._window.limit * self._window.per_ms
        given.append(now_ms + wait_ms)
        if len(self._given) > self._sweep_at:
            for each in self._given.values():
                _drop_past(each, now_ms)
            self._given = {key: each for key, each in self._given.items() if each}
            self._sweep_at = max(_SWEPT_AT, 2 * len(self._given))
        return wait_ms


def _drop_past(given: deque[int], now_ms: int) -> None:
    while given and given[0] <= now_ms:
        given.popleft()
