"""`@circuit_breaker`: stop calling what fails again and again (Nygard, Release It!, 2007). State is of this process."""

from __future__ import annotations

import asyncio

from workfleet.errors import Cancel, CircuitOpen, Fail, Retry, Skipped, Snooze
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed

_NO_FAILURES = (Cancel, Fail, Retry, Skipped, Snooze, asyncio.CancelledError)
"""What a handler says on purpose tells nothing of the health of what it calls."""


class CircuitBreaker:
    """A guard: closed, open after `threshold` failures in a row, then half-open with one call on trial."""

    def __init__(self, name: str, threshold: int, reset_after_ms: int, clock: Clock) -> None:
        self._name, self._threshold, self._reset_after_ms, self._clock = name, threshold, reset_after_ms, clock
        self._failures = 0
        self._opened_at: float | None = None
        self._on_trial = False

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        self._admit()
        try:
            value = await proceed()
        except _NO_FAILURES:
            self._on_trial = False
            raise
        except Exception:
            self._fail()
            raise
        self._failures, self._opened_at, self._on_trial = 0, None, False
        return value

    def _admit(self) -> None:
        if self._opened_at is None:
            return
        left_ms = self._reset_after_ms - (self._clock.monotonic() - self._opened_at) * 1000
        if left_ms > 0 or self._on_trial:
            raise CircuitOpen(self._name, max(round(left_ms), 0))
        self._on_trial = True

    def _fail(self) -> None:
        self._failures += 1
        if self._on_trial or self._failures >= self._threshold:
            self._opened_at = self._clock.monotonic()
        self._on_trial = False
