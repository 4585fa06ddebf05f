"""What a pool counts of its calls for its metrics. Only grows; whoever reads it remembers what he has read.

It is on the way of every call, so it does as little as can be. How calls ended is counted of all of them. How long they
waited and ran is measured of all as well while they are about a thousand a second at most; of more, it is measured of
every second, fourth, eighth… call, which then counts for so many. Distributions are kept by powers of two.
"""

from __future__ import annotations

import asyncio
from typing import Final

from workfleet.errors import RemoteError, WorkfleetError
from workfleet.pools.calls import Call

_MOST_BITS: Final = 40
"""Of a number of microseconds: 2^40 are twelve days."""
_LOOK_AFTER: Final = 256
"""Measured calls after which it is seen how fast they come."""
_SHORT_S, _LONG_S = 0.25, 1.0
"""When so many came within less, fewer are measured; when within more, more."""
_GAP_S: Final = 0.1
"""The rush is over when none came for so long: all are measured again."""
_MOST: Final = 128


class Spread:
    """A distribution of microseconds. `counts[n]` values were of n bits, so below 2^n; `sums[n]` is their sum."""

    __slots__ = ("counts", "sums")

    def __init__(self) -> None:
        self.counts = [0] * (_MOST_BITS + 1)
        self.sums = [0] * (_MOST_BITS + 1)

    def add(self, micros: int, times: int) -> None:
        bits = min(micros.bit_length(), _MOST_BITS)
        self.counts[bits] += times
        self.sums[bits] += micros * times


class Tally:
    """By method: how calls ended, and how long those ran that a child ended; and how long calls waited for a child."""

    def __init__(self) -> None:
        self.stride = 1
        """A call is to be measured when its number can be divided by this: then it says when it was made."""
        self.returned: dict[str, int] = {}
        """How many calls of a method have returned, or their stream has ended."""
        self.failed: dict[tuple[str, str], int] = {}
        """How many calls of a method ended otherwise: "raised", "cancelled", or the code of an error of ours, such as
        "call_timeout"."""
        self.deaths: dict[str, int] = {}
        """How many children died of which cause, see `ChildDied`."""
        self.runs: dict[str, Spread] = {}
        self.waits = Spread()
        self._measured, self._since, self._last = 0, 0.0, 0.0

    def ends(self) -> dict[tuple[str, str], int]:
        """How many calls of a method ended in which way."""
        return {**{(method, "completed"): times for method, times in self.returned.items()}, **self.failed}

    def completed(self, call: Call) -> None:
        """It has returned, or its stream has ended."""
        self.returned[call.method] = self.returned.get(call.method, 0) + 1
        if call.made:
            self._measure(call)

    def ended(self, call: Call, error: BaseException) -> None:
        """It ended with this, before or after it was begun."""
        key = (call.method, outcome_of(error))
        self.failed[key] = self.failed.get(key, 0) + 1
        if call.begun:
            self._measure(call)

    def died(self, cause: str) -> None:
        """A child has died, or was killed."""
        self.deaths[cause] = self.deaths.get(cause, 0) + 1

    def _measure(self, call: Call) -> None:
        times = self.stride
        self.waits.add(int((call.begun - call.made) * 1_000_000), times)
        if call.micros is not None:
            runs = self.runs.get(call.method)
            if runs is None:
                runs = self.runs[call.method] = Spread()
            runs.add(call.micros, times)
        self._pace(call.begun)

    def _pace(self, now: float) -> None:
        if self.stride > 1 and now - self._last > _GAP_S:
            self.stride, self._measured, self._since = 1, 0, now
        self._last = now
        self._measured += 1
        if self._measured < _LOOK_AFTER:
            return
        took, self._measured, self._since = now - self._since, 0, now
        if took < _SHORT_S:
            self.stride = min(self.stride * 2, _MOST)
        elif took > _LONG_S:
            self.stride = max(self.stride // 2, 1)


def outcome_of(error: BaseException) -> str:
    """How a call ended that ended with this error."""
    if isinstance(error, WorkfleetError) and not isinstance(error, RemoteError):
        return error.code
    return "cancelled" if isinstance(error, asyncio.CancelledError | GeneratorExit) else "raised"
