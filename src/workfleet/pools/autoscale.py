"""Grows and shrinks a pool between its `min_size` and `max_size`: quickly up, slowly down, and never to and fro.

`Scaling` is the judgement, pure; `Autoscaler` the loop that asks it. Between growing (nearly all children busy) and
shrinking (half of the rest would be enough) lies a wide band in which the size stays: a steady load ends in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from workfleet.ports.clock import Clock

_EVERY: Final = 0.5
"""Seconds between two looks: a call that two looks have seen waiting has waited so long at least."""
_HIGH: Final = 0.8
"""The share of busy children at which the pool grows when it lasts for `_HIGH_LOOKS`."""
_HIGH_LOOKS: Final = 6
_LOW: Final = 0.5
"""The share of the children left that would be busy at most if one went."""
_QUIET: Final = 60.0
"""Seconds that it must have been so, for each child that goes."""
_PATIENCE: Final = 10.0
"""Seconds for new children to become ready, before more are thought of."""


class Load(NamedTuple):
    """A pool at one look. `waiting` are the ids of the oldest and the newest call that waits."""

    size: int
    ready: int
    busy: int
    queued: int
    waiting: tuple[int, int] | None


class Verdict(NamedTuple):
    """The size that the pool should have, and why."""

    size: int
    why: str


class Scaling:
    """Looks at each `Load` in turn and says when the size should change. Times in seconds."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most
        self._size = 0
        self._newest = 0
        self._high = 0
        self._grown = float("-inf")
        self._quiet_since: float | None = None

    def judge(self, load: Load, now: float) -> Verdict | None:
        """None: it stays as it is."""
        if load.size != self._size:  # by itself or by somebody's order: what was seen before was of another pool
            self._size, self._high, self._quiet_since = load.size, 0, None
        oldest, newest = load.waiting or (self._newest + 1, self._newest)
        waited, self._newest = oldest <= self._newest and load.busy >= load.ready, max(self._newest, newest)
        self._note(load, now)
        if load.ready < load.size and now - self._grown < _PATIENCE:
            return None
        if load.size < self._most and (waited or self._high >= _HIGH_LOOKS):
            self._grown = now
            step = max(min(load.queued, load.size), 1) if waited else 1
            why = f"calls waited longer than {_EVERY:g} s" if waited else f"{_HIGH:.0%} of its children were busy"
            return Verdict(min(load.size + step, self._most), why)
        if load.size > self._least and self._quiet_since is not None and now - self._quiet_since >= _QUIET:
            return Verdict(load.size - 1, f"fewer were enough for {_QUIET:g} s")
        return None

    def _note(self, load: Load, now: float) -> None:
        self._high = self._high + 1 if load.busy >= _HIGH * load.size else 0
        quiet = not load.queued and load.busy <= _LOW * (load.size - 1)
        if not quiet:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now


class Autoscaler:
    """A service. `look` gives None while the pool is not to be scaled: it has failed or stops."""

    def __init__(
        self,
        least: int,
        most: int,
        look: Callable[[], Load | None],
        scale: Callable[[int, str], None],
        clock: Clock,
    ) -> None:
        self.name = "autoscaling"
        self._scaling = Scaling(least, most)
        self._look = look
        self._scale = scale
        self._clock = clock

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(_EVERY)
            load = self._look()
            verdict = None if load is None else self._scaling.judge(load, self._clock.monotonic())
            if verdict is not None:
                self._scale(*verdict)
