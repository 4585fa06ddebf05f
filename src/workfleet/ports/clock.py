"""The process's clock: for waiting and for measuring. Leases and due times are judged by `Store.now_ms()` instead."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and waiting, so that a test can skew or stop them."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; at once where `seconds` is 0 or less."""
        ...
