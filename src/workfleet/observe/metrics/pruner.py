"""Deletes metrics that are older than the retention. Must not know which store it is."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.ports.clock import Clock

from .store import MetricStore, trouble

DAY_MS = 86_400_000


class MetricsPruner:
    """A service: at once, then at every interval. An outage only delays it."""

    def __init__(
        self,
        store: MetricStore,
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        max_age_ms: int = 14 * DAY_MS,
        interval_ms: int = 3_600_000,
    ) -> None:
        self._store, self._clock, self._publish = store, clock, publish
        self._max_age_ms, self._interval_ms = max_age_ms, interval_ms
        self._ill = False
        self.name = "metrics clean-up"

    async def serve(self) -> None:
        while True:
            try:
                await self._store.prune(self._clock.now_ms() - self._max_age_ms)
                self._ill = False
            except StoreUnavailable as error:
                if not self._ill:
                    self._publish(trouble(error))
                self._ill = True
            await self._clock.sleep(self._interval_ms / 1000)
