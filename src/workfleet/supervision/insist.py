"""Asking a store until it answers, for the calls that nothing can go on without."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import StoreUnavailable
from ..events import Event, StoreTrouble
from ..ports.clock import Clock

_T = TypeVar("_T")
_FIRST_RETRY_S = 0.25
_LAST_RETRY_S = 5.0


async def insist(
    call: Callable[[], Awaitable[_T]],
    what: str,
    *,
    timeout_ms: int,
    clock: Clock,
    publish: Callable[[Event], None],
    draw: Callable[[], float] = random.random,
) -> _T:
    """Call until the store has answered: an outage is told once, and tried again with growing, jittered waits.

    `call` must be safe to repeat. A call that takes longer than `timeout_ms` counts as no answer. `draw` is the random
    number of the jitter, from 0 to 1.
    """
    wait_s, told = _FIRST_RETRY_S, False
    while True:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await call()
        except (StoreUnavailable, TimeoutError) as error:
            if not told:
                told = True
                publish(StoreTrouble(what=what, error=str(error) or f"no answer within {timeout_ms} ms"))
        # Never a wait near 0, or a store that is down is asked in a tight loop by an unlucky draw.
        await clock.sleep(wait_s * (0.5 + draw() / 2))
        wait_s = min(wait_s * 2, _LAST_RETRY_S)
