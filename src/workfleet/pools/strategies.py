"""The strategies: which of several ready children gets a call. Pure but for their own turn and dice.

With all of them no call waits while a child is idle: they differ in which of several idle children is taken, and, where
all are busy, in which is sent a quick call ahead (`Pace`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from workfleet.pools.calls import Call
from workfleet.pools.member import Member
from workfleet.pools.pace import Pace

Draw = Callable[[], float]
"""A random number from 0 to 1."""


class Pick(Protocol):
    """One strategy: the child that gets the call now, None when every one is busy."""

    def __call__(self, call: Call, members: list[Member]) -> Member | None: ...


class LeastBusy:
    """The child with the fewest calls, if it may have another. Of equals the first."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __call__(self, call: Call, members: list[Member]) -> Member | None:
        best: Member | None = None
        fewest = 0
        for member in members:
            if member.state == "ready":
                count = len(member.line.calls)
                if best is None or count < fewest:
                    best, fewest = member, count
        return best if not fewest or best is None or has_room(best, call, self._pace) else None


class RoundRobin:
    """Idle children in turn; where none is idle, those that may have another in turn."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._last = -1
        """The place that had the last call."""

    def __call__(self, call: Call, members: list[Member]) -> Member | None:
        chosen: Member | None = None
        best: tuple[bool, bool, int] | None = None
        for member in members:
            rank = len(member.line) > 0, member.slot <= self._last, member.slot
            if member.state == "ready" and (best is None or rank < best) and has_room(member, call, self._pace):
                chosen, best = member, rank
        if chosen is not None:
            self._last = chosen.slot
        return chosen


class PowerOfTwo:
    """The less busy of two children taken at random (Mitzenmacher, "The Power of Two Choices in Randomized Load
    Balancing", 2001): nearly as even as looking at all, and no child is everybody's first choice. Where both are busy
    it looks at all, so that no call waits beside an idle child."""

    def __init__(self, pace: Pace, draw: Draw) -> None:
        self._pace = pace
        self._draw = draw
        self._least_busy = LeastBusy(pace)

    def __call__(self, call: Call, members: list[Member]) -> Member | None:
        two = self._two(members)
        ready = [member for member in two if member.state == "ready"]
        best = min(ready, key=_load, default=None)
        if best is not None and not len(best.line):
            return best
        least = self._least_busy(call, members)
        if best is None or least is None or not len(least.line) or not has_room(best, call, self._pace):
            return least
        return best

    def _two(self, members: list[Member]) -> list[Member]:
        count = len(members)
        if count < 3:
            first = self._below(count) if count else 0
            return [*members[first:], *members[:first]]
        first, second = self._below(count), self._below(count - 1)
        return [members[first], members[second + (second >= first)]]

    def _below(self, count: int) -> int:
        return min(int(self._draw() * count), count - 1)


def has_room(member: Member, call: Call, pace: Pace) -> bool:
    """Whether a child is idle, or may be sent this call ahead."""
    calls = member.line.calls
    if not calls:
        return True
    head, method = calls[0], call.method
    if call.alone or head.alone or len(calls) >= pace.line(method):
        return False
    return head.method == method or len(calls) < pace.line(head.method)


def _load(member: Member) -> int:
    return len(member.line)
