"""Asks all indicators at once, within a time, once for all who ask at the same time, and remembers briefly.

Must not know what the indicators look at, nor who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from workfleet.errors import NotFound, UsageError
from workfleet.events import Event, HealthChanged
from workfleet.ports.clock import Clock

from .indication import HealthReport, Indication, Indicator, IndicatorReport, Status, overall


class Health:
    """The health of this process. No indicators: healthy."""

    def __init__(
        self,
        indicators: Iterable[Indicator],
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        version: str = "",
        timeout_ms: int = 2_000,
        cache_ttl_ms: int = 1_000,
    ) -> None:
        """`timeout_ms` bounds each indicator. Raises `UsageError` when two have one name."""
        self._indicators: dict[str, Indicator] = {}
        self._clock, self._publish = clock, publish
        self._version, self._timeout_ms, self._cache_ttl_ms = version, timeout_ms, cache_ttl_ms
        self._started = clock.monotonic()
        self._cached: tuple[float, HealthReport] | None = None
        self._running: asyncio.Task[HealthReport] | None = None
        self._checks: dict[str, asyncio.Task[Indication]] = {}
        self._status: Status = "healthy"
        for indicator in indicators:
            self.add(indicator)

    def add(self, indicator: Indicator) -> None:
        """Look at one more thing from now on. Raises `UsageError` when there is one of that name."""
        if indicator.name in self._indicators:
            raise UsageError(f"there is a health indicator named {indicator.name!r} already")
        self._indicators[indicator.name] = indicator
        self._cached = None

    def remove(self, name: str) -> bool:
        """Stop looking at it. False when there is none of that name."""
        self._cached = None
        return self._indicators.pop(name, None) is not None

    async def check(self) -> HealthReport:
        """The health now, or at most a cache's lifetime (1 s) ago. Never raises for what an indicator does."""
        if self._cached is not None and self._age_ms(self._cached[0]) < self._cache_ttl_ms:
            return self._cached[1]
        if self._running is None:
            self._running = asyncio.create_task(self._check(), name="health check")
            self._running.add_done_callback(self._forget_running)
        # Shielded: one who gives up must not take the answer from the others.
        return await asyncio.shield(self._running)

    async def check_one(self, name: str) -> IndicatorReport:
        """What one indicator says, by the same cache. Raises `NotFound` for an unknown name."""
        while name in self._indicators:
            for report in (await self.check()).indicators:
                if report.name == name:
                    return report
            # It was added while that check was on its way.
            self._cached = None
        known = ", ".join(sorted(self._indicators)) or "none"
        raise NotFound(f"no health indicator is named {name!r}. There are: {known}")

    async def is_ready(self) -> bool:
        """Whether this process should be given work: anything but unhealthy."""
        return (await self.check()).ready

    async def is_healthy(self) -> bool:
        """Whether nothing at all is wrong."""
        return (await self.check()).status == "healthy"

    async def close(self) -> None:
        """End checks that are still running."""
        tasks: list[asyncio.Task[HealthReport] | asyncio.Task[Indication]] = [*self._checks.values()]
        if self._running is not None:
            tasks.append(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)

    async def _check(self) -> HealthReport:
        started = self._clock.monotonic()
        reports = await asyncio.gather(*(self._ask(indicator) for indicator in list(self._indicators.values())))
        status, reason = overall(reports)
        report = HealthReport(
            status=status,
            reason=reason,
            version=self._version,
            uptime_ms=self._age_ms(self._started),
            checked_ms=self._clock.now_ms(),
            took_ms=self._age_ms(started),
            indicators=tuple(reports),
        )
        self._cached = (self._clock.monotonic(), report)
        if status != self._status:
            self._status = status
            self._publish(HealthChanged(status=status, reason=reason or "all is well again"))
        return report

    async def _ask(self, indicator: Indicator) -> IndicatorReport:
        started = self._clock.monotonic()
        check = self._checks.get(indicator.name)
        if check is None:
            check = asyncio.create_task(_checked(indicator), name=f"health of {indicator.name}")
            self._checks[indicator.name] = check
            check.add_done_callback(lambda done: self._forget_check(indicator.name, done))
        # A check that outlives its time is asked to end but not waited for, and as long as it goes on, no other one
        # of its kind is started: slow checks must not pile up.
        await asyncio.wait([check], timeout=self._timeout_ms / 1000)
        if not check.done():
            check.cancel()
        said = _outcome(check, self._timeout_ms)
        return IndicatorReport(
            name=indicator.name,
            critical=indicator.critical,
            status=said.status,
            facts=said.facts,
            reason=said.reason,
            took_ms=self._age_ms(started),
        )

    def _forget_check(self, name: str, done: asyncio.Task[Indication]) -> None:
        self._checks.pop(name, None)
        if not done.cancelled():
            done.exception()  # retrieved, so that a late failure is not reported as never seen

    def _forget_running(self, done: asyncio.Task[HealthReport]) -> None:
        self._running = None
        if not done.cancelled():
            done.exception()

    def _age_ms(self, since: float) -> int:
        return round((self._clock.monotonic() - since) * 1000)


async def _checked(indicator: Indicator) -> Indication:
    """A user's indicator may do anything; here it becomes an error of the task."""
    said: object = await indicator.check()
    if not isinstance(said, Indication):
        raise TypeError(f"check() returned {said!r}, not an Indication")
    return said


def _outcome(check: asyncio.Task[Indication], timeout_ms: int) -> Indication:
    if not check.done():
        return Indication("unhealthy", reason=f"no answer within {timeout_ms} ms")
    if check.cancelled():
        return Indication("unhealthy", reason="the check was cancelled")
    error = check.exception()
    if error is not None:
        return Indication("unhealthy", reason=f"{type(error).__name__}: {error}")
    return check.result()
