"""Whether the fleet's work goes on: how long ready jobs wait, and which schedules should have fired and have not.

Both are given what the store says, as far as they need it; they judge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from workfleet.model.durations import format_duration

from .indication import Indication, Status, worst

Ages = tuple[int | None, int | None]
"""From when on something is degraded and unhealthy, in milliseconds; None: never."""

_SHOWN = 3


class QueuesIndicator:
    """The age of the oldest ready job of each queue that is not paused: `read` gives them by name, in milliseconds.

    `own` are the ages of single queues, the others have `usual`."""

    name = "queues"

    def __init__(
        self,
        read: Callable[[], Awaitable[Mapping[str, int]]],
        *,
        usual: Ages = (600_000, 3_600_000),
        own: Mapping[str, Ages] | None = None,
        critical: bool = False,
    ) -> None:
        self._read, self._usual, self._own = read, usual, dict(own or {})
        self.critical = critical

    async def check(self) -> Indication:
        ages = await self._read()
        found = [self._judge(queue, age_ms) for queue, age_ms in sorted(ages.items(), key=lambda pair: -pair[1])]
        return _together(found, {"queues": len(ages), "oldest_ms": max(ages.values(), default=0)})

    def _judge(self, queue: str, age_ms: int) -> Indication:
        status = _status(age_ms, self._own.get(queue, self._usual))
        return Indication(status, reason="" if status == "healthy" else f"{queue}: a job waits for {_rough(age_ms)}")


class SchedulesIndicator:
    """How late the schedules are that should have fired: `read` gives them by name, in milliseconds."""

    name = "schedules"

    def __init__(
        self,
        read: Callable[[], Awaitable[Mapping[str, int]]],
        *,
        ages: Ages = (60_000, 600_000),
        critical: bool = False,
    ) -> None:
        self._read, self._ages = read, ages
        self.critical = critical

    async def check(self) -> Indication:
        late = await self._read()
        found = [self._judge(name, late_ms) for name, late_ms in sorted(late.items(), key=lambda pair: -pair[1])]
        overdue = sum(said.status != "healthy" for said in found)
        return _together(found, {"overdue": overdue, "latest_ms": max(late.values(), default=0)})

    def _judge(self, name: str, late_ms: int) -> Indication:
        status = _status(late_ms, self._ages)
        return Indication(status, reason="" if status == "healthy" else f"{name} is overdue by {_rough(late_ms)}")


def _status(value_ms: int, ages: Ages) -> Status:
    degraded_from, unhealthy_from = ages
    if unhealthy_from is not None and value_ms >= unhealthy_from:
        return "unhealthy"
    return "degraded" if degraded_from is not None and value_ms >= degraded_from else "healthy"


def _together(found: Iterable[Indication], facts: Mapping[str, int]) -> Indication:
    """All of them as one, the worst first; of many ill ones only the first are named."""
    ill = [said for said in found if said.status != "healthy"]
    told = worst(ill[:_SHOWN])
    more = f"; and {len(ill) - _SHOWN} more" if len(ill) > _SHOWN else ""
    return Indication(worst(ill).status, facts, told.reason + more)


def _rough(ms: int) -> str:
    return format_duration(ms // 1000 * 1000)
