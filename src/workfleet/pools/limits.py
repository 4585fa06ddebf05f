"""Holds a pool's children to their limits of memory and processor time. A service; it sleeps while nobody calls.

It looks more often the nearer a child comes to a limit and the faster it grows, so that one which doubles its memory in
a tenth of a second is still seen before it has taken the machine's. What a limit means is in `memory` and `cpu_time`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from workfleet.pools.cpu_time import CpuTimeJudge
from workfleet.pools.desk import Desk
from workfleet.pools.member import Member
from workfleet.pools.memory import MemoryJudge
from workfleet.pools.options import PoolOptions
from workfleet.pools.usage import Meter, ProcessMeter
from workfleet.ports.clock import Clock
from workfleet.supervision.proc import Cpu

_IDLE: Final = 2.0
_WORTH: Final = 0.5
"""Seconds over which a share of the processor is worth telling."""


class LimitsWatch:
    """Also keeps each member's `memory_bytes` and `cpu_percent` up to date."""

    def __init__(
        self,
        options: PoolOptions,
        desk: Desk,
        members: Callable[[], Iterable[Member]],
        clock: Clock,
        meter: Callable[[int], Meter] = ProcessMeter,
    ) -> None:
        self.name = f"limits of pool {options.name}"
        self._options = options
        self._limited = options.soft_limit_bytes is not None or options.cpu_time_ms is not None
        self._desk = desk
        self._members = members
        self._clock = clock
        self._meter = meter
        self._watched: dict[Member, _Watched] = {}

    async def serve(self) -> None:
        while True:
            self._desk.worked.clear()
            pause = self.look()
            if pause is not None:
                await self._clock.sleep(pause)
            elif self._limited:
                await self._wait_for_work()
            else:
                await self._clock.sleep(_IDLE)

    async def _wait_for_work(self) -> None:
        """A child that nobody calls may grow too: threads of its own."""
        try:
            async with asyncio.timeout(_IDLE):
                await self._desk.worked.wait()
        except TimeoutError:
            pass

    def look(self) -> float | None:
        """Measures and judges each child. Seconds until the next look; None: there is no hurry."""
        now = self._clock.monotonic()
        before, self._watched = self._watched, {}
        pauses: list[float] = []
        for member in self._members():
            if member.state == "gone":
                continue
            watched = self._watched[member] = before.get(member) or _Watched(
                self._meter(member.child.pid), self._options
            )
            pause = watched.look(member, now)
            if pause is not None and (len(member.line) or member.state != "ready"):
                pauses.append(pause)
        return min(pauses, default=None)


class _Watched:
    """One child. Measuring is what costs: only what is limited is measured at every look."""

    def __init__(self, meter: Meter, options: PoolOptions) -> None:
        self._meter = meter
        self._memory = MemoryJudge(options, meter) if options.soft_limit_bytes is not None else None
        self._cpu = CpuTimeJudge(options.name, options.cpu_time_ms) if options.cpu_time_ms is not None else None
        self._told_at = -_WORTH
        self._told: Cpu | None = None

    def look(self, member: Member, now: float) -> float | None:
        """Seconds until it should be looked at again while it works; None: that does not matter."""
        if now - self._told_at >= _WORTH:
            self._tell(member, now)
        if (head := member.line.head) is not None and head.doom is not None:
            return None  # it is being killed
        pauses: list[float] = []
        if self._memory is not None and (used := self._meter.memory_bytes(now)) is not None:
            pauses.append(self._memory.judge(member, used, now))
        if self._cpu is not None and (cpu := self._meter.cpu(now)) is not None:
            pauses.append(self._cpu.judge(member, cpu))
        return min(pauses, default=None)

    def _tell(self, member: Member, now: float) -> None:
        memory, cpu = self._meter.memory_bytes(now), self._meter.cpu(now)
        if memory is None or cpu is None:
            return
        member.memory_bytes = memory
        if self._told is not None:
            used_ms = max(cpu.total - self._told.total, 0.0)
            member.cpu_percent = round(used_ms / (now - self._told_at) / 10, 1)
        self._told_at, self._told = now, cpu
