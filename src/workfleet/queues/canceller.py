"""The loop that ends runs whose jobs somebody has cancelled. It asks the store only while there is something to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import Claim
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore


class Canceller:
    """A Service. `claims` says what runs, `cancel` ends a run for good."""

    name = "canceller"

    def __init__(
        self,
        jobs: JobStore,
        claims: Callable[[], Sequence[Claim]],
        cancel: Callable[[Claim], None],
        *,
        poll_ms: int,
        clock: Clock,
    ) -> None:
        self._jobs, self._claims, self._cancel = jobs, claims, cancel
        self._poll_ms, self._clock = poll_ms, clock

    async def serve(self) -> None:
        while True:
            # Polling decides: a wake-up can be lost, and a job may be marked between its claim and the first look.
            try:
                await self._jobs.wait_for_cancels(self._poll_ms)
                await self._look()
            except StoreUnavailable:
                await self._clock.sleep(self._poll_ms / 1000)  # whoever needs the store reports the outage

    async def _look(self) -> None:
        claims = self._claims()
        if claims:
            marked = await self._jobs.cancels(claims)
            for claim, wanted in zip(claims, marked, strict=True):
                if wanted:
                    self._cancel(claim)
