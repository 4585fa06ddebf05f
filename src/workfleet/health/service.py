"""Asks all indicators at once, within a time, once for all who ask at the same time, and remembers briefly.

Must not know what the indicators look at, nor who asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from workfleet.bus import shown
from workfleet.errors import NotFound, UsageError
from workfleet.events import Event, HealthChanged
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.ports.clock import Clock

from .indication import HealthReport, Indication, Indicator, IndicatorReport, overall
from .told import as_told


class Health:
    """The health of this process. No indicators: healthy. What an indicator does harms none of the others, nor who
    asks: one that raises, hangs, ends the process or says nonsense is unhealthy."""

    def __init__(
        self,
        indicators: Iterable[Indicator],
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        version: str = "",
        timeout_ms: int = 2_000,
        cache_ttl_ms: int = 1_000,
        clean: Callable[[str], str] = str,
    ) -> None:
        """`timeout_ms` bounds each indicator; `clean` takes out of their texts what nobody may read. Raises
        `UsageError` when two have one name."""
        self._indicators: dict[str, Indicator] = {}
        self._timeouts: dict[str, int] = {}
        self._clean = clean
        self._clock, self._publish = clock, publish
        self._version, self._timeout_ms, self._cache_ttl_ms = version, timeout_ms, cache_ttl_ms
        self._started = clock.monotonic()
        self._cached: tuple[float, HealthReport] | None = None
        self._running: asyncio.Task[HealthReport] | None = None
        self._checks: dict[str, asyncio.Task[Indication]] = {}
        self._ill: dict[str, str] = {}
        for indicator in indicators:
            self.add(indicator)

    def add(self, indicator: Indicator, *, timeout: DurationLike | None = None) -> None:
        """Look at one more thing from now on, within a timeout of its own where one is given. Raises `UsageError` when
        there is one of that name."""
        if indicator.name in self._indicators:
            raise UsageError(f"there is a health indicator named {indicator.name!r} already")
        if timeout is not None:
            self._timeouts[indicator.name] = duration_ms(timeout)
        self._indicators[indicator.name] = indicator
        self._cached = None

    def remove(self, name: str) -> bool:
        """Stop looking at it. False when there is none of that name."""
        self._cached = None
        self._timeouts.pop(name, None)
        return self._indicators.pop(name, None) is not None

    async def check(self) -> HealthReport:
        """The health now, or at most a cache's lifetime (1 s) ago. Never raises for what an indicator does."""
        if self._cached is not None and self._age_ms(self._cached[0]) < self._cache_ttl_ms:
            return self._cached[1]
        # One that is done and not forgotten yet would be answered from without a pause: who asks in a loop would spin.
        if self._running is None or self._running.done():
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
        ill = {each.name: each.status for each in report.ill}
        # Told by what is ill and how, not by the reasons: they have figures, which change all the time.
        if ill != self._ill:
            self._ill = dict(ill)
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
        timeout_ms = self._timeouts.get(indicator.name, self._timeout_ms)
        await asyncio.wait([check], timeout=timeout_ms / 1000)
        if not check.done() and not check.cancelling():
            # Once only: who waits for a thread lets go of it at the second time, and it would go on beside the next.
            check.cancel()
        said = as_told(_outcome(check, timeout_ms), self._clean)
        return IndicatorReport(
            name=indicator.name,
            critical=bool(indicator.critical),
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
        if self._running is done:
            self._running = None
        if not done.cancelled():
            done.exception()

    def _age_ms(self, since: float) -> int:
        return round((self._clock.monotonic() - since) * 1000)


async def _checked(indicator: Indicator) -> Indication:
    """A user's indicator may do anything; here it becomes an error of the task."""
    try:
        said: object = await indicator.check()
    except (SystemExit, KeyboardInterrupt) as error:
        # Raised in a task they would end the loop, and with it the process.
        raise RuntimeError(f"it raised {shown(error)}") from None
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
        return Indication("unhealthy", reason=_text(error))
    return check.result()


def _text(error: BaseException) -> str:
    """An exception in words, whatever its own code does."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the exception's own code is user code
        return shown(error)
