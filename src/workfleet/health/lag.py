"""Event-loop lag: how late the loop is for what is due. A sampler measures, an indicator judges."""

from __future__ import annotations

from collections import deque
from math import ceil

from workfleet.ports.clock import Clock

from .indication import Indication, judged


class LoopLagSampler:
    """A service that wakes at an interval and keeps by how much it was late, over a window.

    A block of ten seconds is one late wake-up, but all that was due meanwhile was late too: it counts once for each
    interval that it lasted (as HdrHistogram corrects for coordinated omission), so that a percentile shows it.
    """

    name = "loop lag"

    def __init__(self, clock: Clock, *, interval_ms: int = 100, window_ms: int = 30_000) -> None:
        self._clock, self._interval_s = clock, interval_ms / 1000
        self._lags: deque[float] = deque(maxlen=max(window_ms // interval_ms, 1))

    async def serve(self) -> None:
        while True:
            due = self._clock.monotonic() + self._interval_s
            await self._clock.sleep(self._interval_s)
            self.record(max(self._clock.monotonic() - due, 0.0))

    def record(self, lag_s: float) -> None:
        """Take one wake-up that was that late, in seconds."""
        # What filled the whole window needs no more counting than that.
        missed = min(int(lag_s / self._interval_s), (self._lags.maxlen or 1) - 1)
        self._lags.extend(lag_s - nth * self._interval_s for nth in range(missed, -1, -1))

    def percentile_ms(self, percent: float) -> float | None:
        """The lag that so many per cent of the window stayed below, in milliseconds. None before the first sample."""
        if not self._lags:
            return None
        ordered = sorted(self._lags)
        return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)] * 1000

    @property
    def max_ms(self) -> float:
        """The worst lag of the window, in milliseconds."""
        return max(self._lags, default=0.0) * 1000


class LoopLagIndicator:
    """The 99th percentile of the loop's lag. Not critical: a busy process is late, but it works."""

    name = "event-loop"

    def __init__(
        self,
        sampler: LoopLagSampler,
        *,
        degraded_from_ms: float = 50,
        unhealthy_from_ms: float = 100,
        critical: bool = False,
    ) -> None:
        self._sampler = sampler
        self._degraded_from_ms, self._unhealthy_from_ms = degraded_from_ms, unhealthy_from_ms
        self.critical = critical

    async def check(self) -> Indication:
        p99 = self._sampler.percentile_ms(99)
        if p99 is None:
            return Indication("healthy", {"p99_ms": None})
        status = judged(p99, self._degraded_from_ms, self._unhealthy_from_ms)
        reason = "" if status == "healthy" else f"the event loop is {p99:.0f} ms late (99th percentile)"
        return Indication(status, {"p99_ms": round(p99, 1), "max_ms": round(self._sampler.max_ms, 1)}, reason)
