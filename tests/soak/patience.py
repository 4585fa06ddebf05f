"""Asking a store whose server may be down for a while, as the server of a soak is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from workfleet import StoreUnavailable

T = TypeVar("T")
_BACK_WITHIN_S = 60.0


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer. Raises what the store raises when it is not back after a minute."""
    give_up = time.monotonic() + _BACK_WITHIN_S
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(0.05)
