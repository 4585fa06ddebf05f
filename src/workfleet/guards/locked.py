"""`@locked`: the call runs only while its lock is held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from workfleet.errors import LockBusy, Skipped
from workfleet.events import Event, LockBusySkipped
from workfleet.ports.guards import Call, Proceed
from workfleet.ports.locks import LockTaker
from workfleet.templates import Template

_WAIT_FOREVER = timedelta(days=365)


@dataclass(frozen=True)
class Locked:
    """A guard. An outage of the store is `LockUnavailable`, never "free"."""

    key: Template
    ttl_ms: int | None
    on_busy: Literal["skip", "raise", "wait"]
    locks: LockTaker
    publish: Callable[[Event], None]

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        ttl = None if self.ttl_ms is None else timedelta(milliseconds=self.ttl_ms)
        wait = _WAIT_FOREVER if self.on_busy == "wait" else timedelta(0) if self.on_busy == "skip" else None
        held = self.locks.lock(self.key.fill(call.values), ttl=ttl, wait=wait)
        try:
            await held.__aenter__()
        except LockBusy as busy:
            if self.on_busy != "skip":
                raise
            self.publish(LockBusySkipped(lock=busy.name, holder=busy.holder, name=call.name))
            raise Skipped(f"lock {busy.name!r} is held by {busy.holder}") from None
        # Entered by hand above so that a LockBusy of the body itself is not taken for ours.
        try:
            value = await proceed()
        except BaseException as error:
            await held.__aexit__(type(error), error, error.__traceback__)
            raise
        await held.__aexit__(None, None, None)
        return value
