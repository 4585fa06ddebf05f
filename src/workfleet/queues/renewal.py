"""The loop that renews the claims which have no place on a board, so that nobody else does.

It is for a store in memory, which no other process or thread can reach, and for more jobs at a time than a board holds.
Code that blocks the event loop stops it: that is what boards are for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import Claim
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore


class Renewal:
    """A Service. `claims` says what is to be renewed, `lost` hears of what is somebody else's by now."""

    name = "renewal"

    def __init__(
        self,
        jobs: JobStore,
        claims: Callable[[], Sequence[Claim]],
        lost: Callable[[Claim], None],
        *,
        lease_ms: int,
        clock: Clock,
    ) -> None:
        self._jobs, self._claims, self._lost = jobs, claims, lost
        self._lease_ms, self._clock = lease_ms, clock

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(self._lease_ms / 3000)
            await self._renew(self._claims())

    async def _renew(self, claims: Sequence[Claim]) -> None:
        if not claims:
            return
        try:
            answers = await self._jobs.renew(claims, self._lease_ms)
        except StoreUnavailable:
            return  # whoever needs the store reports the outage; a third of the lease later is soon enough
        for claim, renewed in zip(claims, answers, strict=True):
            if not renewed:
                self._lost(claim)
