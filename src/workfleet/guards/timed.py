"""`@timeout`: a pool method's call that takes too long is cancelled, which ends the process that works on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from workfleet.errors import CallTimeout
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed


@dataclass(frozen=True)
class Timed:
    """A guard. What stands below it counts: waiting for a child, for a place or a lock, and calls that are made
    again."""

    timeout_ms: int
    clock: Clock

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        task, late = asyncio.current_task(), False
        assert task is not None
        asked_before = task.cancelling()

        async def ring() -> None:
            nonlocal late
            await self.clock.sleep(self.timeout_ms / 1000)
            late = True
            task.cancel()

        alarm = asyncio.create_task(ring(), name=f"timeout of {call.name}")
        try:
            return await proceed()
        except asyncio.CancelledError:
            # Somebody else may have cancelled this task as well: then that is what has happened.
            if not late or task.cancelling() > asked_before + 1:
                raise
            pool, _, method = call.name.rpartition(".")
            raise CallTimeout(pool, method, self.timeout_ms, ended="it was cancelled") from None
        finally:
            alarm.cancel()
            if late:
                task.uncancel()
