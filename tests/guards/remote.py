"""What is called through a guard, and a test decides what becomes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


class Remote:
    """It fails with `error`, once there is one, and waits for `gate`."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> str:
        self.calls += 1
        gate, error = self.gate, self.error
        if gate is not None:
            await gate.wait()
        if error is not None:
            raise error
        return "ok"


async def fails(call: Any, times: int, **values: Any) -> None:
    for _ in range(times):
        with pytest.raises(OSError, match="down"):
            await call(**values)
