"""Waiting for whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first(timeout_s: float | None, *things: asyncio.Future[Any] | Coroutine[Any, Any, object]) -> None:
    """Wait until one of the things is done, or the time is over (None: no limit).

    Futures and tasks stay as they are, for the caller to look at; coroutines are cancelled when it is over.
    """
    futures = [asyncio.ensure_future(thing) for thing in things]
    own = [future for future, thing in zip(futures, things, strict=True) if future is not thing]
    try:
        await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in own:
            future.cancel()
        await asyncio.gather(*own, return_exceptions=True)
