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
        trial = self._admit()
        try:
            value = await proceed()
        except _NO_FAILURES:
            raise
        except BaseException:
            self._fail(trial=trial)
            raise
        else:
            self._succeed(trial=trial)
            return value
        finally:
            if trial:
                self._on_trial = False

    def _admit(self) -> bool:
        """Whether this call is the one on trial. Raises `CircuitOpen`."""
        if self._opened_at is None:
            return False
        left_ms = self._reset_after_ms - (self._clock.monotonic() - self._opened_at) * 1000
        if left_ms > 0 or self._on_trial:
            raise CircuitOpen(self._name, max(round(left_ms), 0))
        self._on_trial = True
        return True

    def _succeed(self, *, trial: bool) -> None:
        # A call that began before the circuit opened says nothing about now.
        if trial or self._opened_at is None:
            self._failures, self._opened_at = 0, None

    def _fail(self, *, trial: bool) -> None:
        if self._opened_at is not None and not trial:
            return
        self._failures += 1
        if trial or self._failures >= self._threshold:
            self._opened_at = self._clock.monotonic()
