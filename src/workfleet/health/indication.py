"""What an indicator says, and what health is made of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

Status = Literal["healthy", "degraded", "unhealthy"]
Fact: TypeAlias = str | int | float | bool | None

_ORDER: Mapping[Status, int] = {"healthy": 0, "degraded": 1, "unhealthy": 2}


class Indication(Struct, frozen=True):
    """How one thing is. `facts` are numbers for people and charts, `reason` says why it is not healthy."""

    status: Status
    facts: Mapping[str, Fact] = {}
    reason: str = ""


class Indicator(Protocol):
    """One thing to look at. A `critical` one that is unhealthy makes the process unready, another one only degraded.

    What `check` raises counts as unhealthy, with the error as its reason.
    """

    @property
    def name(self) -> str: ...
    @property
    def critical(self) -> bool: ...

    async def check(self) -> Indication: ...


class IndicatorReport(Struct, frozen=True, kw_only=True):
    """What one indicator said, and how long it took."""

    name: str
    critical: bool
    status: Status
    facts: Mapping[str, Fact]
    reason: str
    took_ms: int


class HealthReport(Struct, frozen=True, kw_only=True):
    """The health of a process at an instant."""

    status: Status
    reason: str
    """Names what is not healthy, the worst first; "" when all is."""
    version: str
    uptime_ms: int
    checked_ms: int
    took_ms: int
    indicators: tuple[IndicatorReport, ...]

    @property
    def ready(self) -> bool:
        """Anything but unhealthy."""
        return self.status != "unhealthy"

    @property
    def ill(self) -> tuple[IndicatorReport, ...]:
        """What is not healthy."""
        return tuple(report for report in self.indicators if report.status != "healthy")


def judged(value: float, degraded_from: float, unhealthy_from: float) -> Status:
    """The status of a value that should be low."""
    if value >= unhealthy_from:
        return "unhealthy"
    return "degraded" if value >= degraded_from else "healthy"


def worst(said: Sequence[Indication], *, good: Mapping[str, Fact] | None = None) -> Indication:
    """Several findings of one indicator as one: the worst status, the reasons with the worst first, and the facts of
    the first of the worst. Where there is nothing to say, it is healthy, with the facts `good`."""
    told = sorted(said, key=lambda each: -_ORDER[each.status])
    if not told:
        return Indication("healthy", good or {})
    return Indication(told[0].status, told[0].facts, "; ".join(each.reason for each in told if each.reason))


def overall(reports: Iterable[IndicatorReport]) -> tuple[Status, str]:
    """The worst critical status wins; what is not critical degrades at most. With the reasons, the worst first."""
    weighed = [(_weight(report), report) for report in reports]
    status: Status = max((each for each, _ in weighed), key=_ORDER.__getitem__, default="healthy")
    told = sorted((pair for pair in weighed if pair[0] != "healthy"), key=lambda pair: -_ORDER[pair[0]])
    return status, "; ".join(f"{report.name}: {report.reason or report.status}" for _, report in told)


def is_status(value: object) -> bool:
    """Whether it is one of the three words."""
    return isinstance(value, str) and value in _ORDER


def _weight(report: IndicatorReport) -> Status:
    return "degraded" if report.status == "unhealthy" and not report.critical else report.status
