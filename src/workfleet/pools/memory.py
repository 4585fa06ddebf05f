"""What follows from the memory that a child holds, together with what it started. Knows no clock and measures nothing.

Pages that the child and its descendants share are counted for each, which is cheap; before a child with descendants is
killed, they are counted once.
"""

from __future__ import annotations

from typing import Final

from workfleet.errors import MemoryLimitExceeded
from workfleet.pools.member import Member
from workfleet.pools.options import PoolOptions
from workfleet.pools.usage import Meter

_STEADY: Final = 0.05
_HURRIED: Final = 0.005
_AGAIN: Final = 0.25
"""Seconds until shared pages are counted again, where they were what made it look too large."""


class MemoryJudge:
    """Of one child. Above the hard limit it is killed and its call fails; above the soft one it is replaced after its
    call."""

    def __init__(self, options: PoolOptions, meter: Meter) -> None:
        self._pool = options.name
        self._hard, self._soft = options.memory_bytes, options.soft_limit_bytes
        self._meter = meter
        self._before: tuple[float, int] | None = None
        self._fair_at = -_AGAIN
        self._passed_in: int | None = None
        """The call in which it passed the soft limit; 0: in none."""
        self._most = 0

    def judge(self, member: Member, used: int, now: float) -> float:
        """Seconds until it should be looked at again while it works."""
        if self._hard is not None and used > self._hard:
            if now - self._fair_at < _AGAIN:
                return _STEADY
            fair, self._fair_at = self._meter.fair_memory_bytes(), now
            if fair > self._hard:
                self._end(member, fair, self._hard)
            return _STEADY
        self._retire_above_soft(member, used)
        return self._pause(used, now)

    def _retire_above_soft(self, member: Member, used: int) -> None:
        """Once the call that made it so large is over: until then it may still pass the hard limit."""
        soft = self._soft
        if soft is None or (used <= soft and self._passed_in is None):
            return
        call = member.line.head.id if member.line.head is not None else 0
        # A child that is above it from the start would be replaced for ever.
        if used > soft and (call or member.calls):
            self._passed_in = call if self._passed_in is None else self._passed_in
            self._most = max(self._most, used)
        if self._passed_in is not None and (not call or call != self._passed_in):
            member.retire(f"it held {format_mb(self._most)}, above the soft limit of {format_mb(soft)}")

    def _end(self, member: Member, used: int, limit: int) -> None:
        member.line.catch_up()
        head = member.line.head
        if head is not None:
            error = MemoryLimitExceeded(self._pool, head.method, used, limit)
            member.kill(f"{head.method} used {format_mb(used)} of {format_mb(limit)}", error)
        else:
            # Without any call it is what the object itself needs: a death like any other, or it would go on for ever.
            why = f"it holds {format_mb(used)}, above its limit of {format_mb(limit)}"
            member.kill(why, asked=bool(member.calls))

    def _pause(self, used: int, now: float) -> float:
        """Until it could be halfway to the limit at the speed at which it grows."""
        before, self._before = self._before, (now, used)
        if self._hard is None or before is None or now <= before[0] or used <= before[1]:
            return _STEADY
        growth = (used - before[1]) / (now - before[0])
        return min(max((self._hard - used) / growth / 2, _HURRIED), _STEADY)


def format_mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
