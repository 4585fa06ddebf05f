"""`@retry`: a pool method's call that failed is made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workfleet.bus import shown
from workfleet.errors import (
    CircuitOpen,
    CpuTimeExceeded,
    MemoryLimitExceeded,
    PayloadRejected,
    PoolBusy,
    PoolFailed,
    RateLimited,
)
from workfleet.events import CallRetried, Event
from workfleet.model.policy import Backoff
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed

from .kinds import DECISIONS, is_one_of

_NEVER = (*DECISIONS, PayloadRejected)
"""What another call would only come to again, or what says itself what follows."""
_ONLY_IF_NAMED = (CircuitOpen, CpuTimeExceeded, MemoryLimitExceeded, PoolFailed)
"""Another call would be refused at once, or take one more child with it."""


@dataclass(frozen=True)
class Again:
    """A guard. `kinds` None: every exception but those that another call does not help."""

    attempts: int
    backoff: Backoff
    kinds: tuple[type[BaseException], ...] | None
    clock: Clock
    publish: Callable[[Event], None]
    draw: Callable[[], float]

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        attempt = 1
        while True:
            try:
                return await proceed()
            except Exception as error:
                if attempt >= self.attempts or not self._helps(error):
                    raise
                wait_ms = self._wait_ms(error, attempt)
                said = shown(error)
            self.publish(
                CallRetried(name=call.name, attempt=attempt, attempts=self.attempts, wait_ms=wait_ms, error=said)
            )
            # Out of the handler above, so that the exception and what it holds are gone while it waits.
            await self.clock.sleep(wait_ms / 1000)
            attempt += 1

    def _helps(self, error: Exception) -> bool:
        if isinstance(error, _NEVER):
            return False
        if self.kinds is None:
            return not isinstance(error, _ONLY_IF_NAMED)
        return is_one_of(error, self.kinds)

    def _wait_ms(self, error: Exception, attempt: int) -> int:
        """The backoff's wait, and at least what who was too busy has asked for."""
        asked = error.retry_after_ms if isinstance(error, CircuitOpen | PoolBusy | RateLimited) else 0
        return max(self.backoff.delay_ms(attempt, self.draw()), asked)
