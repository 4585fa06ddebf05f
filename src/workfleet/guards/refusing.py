"""What a guard does with a call that it does not let through: who calls a pool method is told, a job waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from workfleet.errors import CircuitOpen, RateLimited, Snooze

Place = Literal["run", "method"]
"""Around what a guard stands: the run of a handler or of a scheduled function, or a method of a pool."""


def refusal(error: CircuitOpen | RateLimited, place: Place) -> BaseException:
    """What to raise. The run was not tried, so that it costs no attempt: it runs again when it may."""
    if place == "method":
        return error
    return Snooze(timedelta(milliseconds=max(error.retry_after_ms, 1)), str(error))
