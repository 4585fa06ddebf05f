"""Connecting, again and again, with capped and jittered waits between."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from workfleet.errors import StoreUnavailable
from workfleet.ports.clock import Clock

from .link import Link

_FIRST_S = 0.05
_LONGEST_S = 2.0
STEADY_S = 1.0
"""A link that lived for less came to nothing: the next attempt waits first, so that no loss is a circle."""

Dial = Callable[[Link], Awaitable[None]]
"""Connects a socket, logs in, and gives it to the link. Raises `StoreUnavailable`."""


async def connected(
    dial: Dial,
    make: Callable[[], Link],
    clock: Clock,
    *,
    failed: Callable[[StoreUnavailable], None],
    lived_s: float | None = None,
) -> Link:
    """A new link. It tries until there is one, and tells `failed` of each attempt that was in vain.

    `lived_s` is how long the link before this one lived."""
    longest = _FIRST_S
    if lived_s is not None and lived_s < STEADY_S:
        await clock.sleep(random.uniform(0, STEADY_S))
    while True:
        link = make()
        try:
            await dial(link)
        except StoreUnavailable as error:
            failed(error)
        else:
            return link
        # Full jitter: a fleet that lost its server does not come back all at once.
        await clock.sleep(random.uniform(0, longest))
        longest = min(longest * 2, _LONGEST_S)
