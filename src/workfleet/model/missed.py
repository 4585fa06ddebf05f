"""What becomes of slots that nobody fired in time: the policy, as users write it and as it is stored."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

CATCH_UP_MOST = 1_000
LATE_MS = 60_000
"""A slot is late when it is fired more than a minute after its time, its jitter included: much longer than the poll
(10 s) after which another process takes over, so that somebody was down, blocked or paused. With `missed="skip"` it is
not run any more."""


class CatchUp(Struct, frozen=True):
    """Run the last `limit` slots that were missed, one by one; `catch_up` makes it."""

    limit: int

    def __str__(self) -> str:
        return f"catch_up({self.limit})"


Missed: TypeAlias = Literal["once", "skip"] | CatchUp
_WRITTEN = re.compile(r"catch_up\(\s*(\d{1,9})\s*\)", re.ASCII)


def catch_up(limit: int, /) -> CatchUp:
    """`missed=catch_up(10)`: after an outage the last 10 slots run, the oldest first, each in a run with its own slot;
    the older ones are missed. Each begins when the one before has ended, unless `overlap="allow"`. Slots that come
    meanwhile go by `overlap`, behind them.

    Raises ValueError for a limit that is not from 1 to 1,000."""
    given: object = limit
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= CATCH_UP_MOST:
        raise ValueError(f"catch_up({limit!r}): it is a number from 1 to {CATCH_UP_MOST:,}")
    return CatchUp(limit)


def missed_of(value: object) -> Missed:
    """The policy that was meant: a policy, or its text, as files and the command line have it ("catch_up(10)").

    Raises ValueError."""
    if isinstance(value, CatchUp):
        return catch_up(value.limit)
    if value == "once" or value == "skip":
        return value
    if isinstance(value, str) and (written := _WRITTEN.fullmatch(value.strip())):
        return catch_up(int(written[1]))
    raise ValueError(f"missed={value!r}: it is one of 'once', 'skip', catch_up(10)")
