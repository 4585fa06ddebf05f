"""`@metric`: calls, outcomes and durations of a function under a name of the user's."""

from __future__ import annotations

import re

from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed
from workfleet.ports.metrics import Metrics


class Metered:
    """A guard. "images.resize" becomes `images_resize_calls_total{outcome}` and `images_resize_duration_seconds`."""

    def __init__(self, name: str, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._name = re.sub(r"\W", "_", name)

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        started, outcome = self._clock.monotonic(), "failed"
        try:
            value = await proceed()
            outcome = "completed"
        finally:
            self._metrics.counter(f"{self._name}_calls_total", labels={"outcome": outcome})
            self._metrics.histogram(f"{self._name}_duration_seconds", self._clock.monotonic() - started)
        return value
