"""`@metric`: calls, outcomes and durations of a function under a name of the user's, or the function's own."""

from __future__ import annotations

import asyncio
import re

from workfleet.errors import Cancel, Retry, Skipped, Snooze
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Proceed
from workfleet.ports.metrics import Metrics

_OUTCOMES: tuple[tuple[type[BaseException], str], ...] = (
    (Skipped, "skipped"),
    (Snooze, "snoozed"),
    (Cancel, "cancelled"),
    (asyncio.CancelledError, "cancelled"),
    (Retry, "retry"),
)


class Metered:
    """A guard. "images.resize" becomes `images_resize_calls_total{outcome}` and `images_resize_duration_seconds`.

    Without a name it is the function's: `ImageWorker.resize` is "image_worker.resize"."""

    def __init__(self, name: str | None, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._name = None if name is None else _metric_name(name)

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        started, outcome = self._clock.monotonic(), "completed"
        if self._name is None:
            self._name = _metric_name(default_name(call.name))
        try:
            return await proceed()
        except BaseException as error:
            outcome = next((word for kind, word in _OUTCOMES if isinstance(error, kind)), "failed")
            raise
        finally:
            self._metrics.counter(f"{self._name}_calls_total", labels={"outcome": outcome})
            self._metrics.histogram(f"{self._name}_duration_seconds", self._clock.monotonic() - started)


def default_name(function: str) -> str:
    """The name of a function that was given none: in lower case, its words parted by underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", function).lower()


def _metric_name(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)
