"""Finds children that are stuck or have died without telling. Two services; neither disturbs a child at work."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workfleet.pools.member import Member
from workfleet.ports.clock import Clock


class HealthCheck:
    """Asks each idle child how it is. One that does not answer is killed, one that is ill stops; both are replaced."""

    def __init__(self, interval_ms: int, members: Callable[[], Iterable[Member]], clock: Clock) -> None:
        self.name = "health check"
        self._interval = interval_ms / 1000
        self._members = members
        self._clock = clock

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(self._interval)
            for member in self._members():
                if member.state == "ready" and not len(member.line):
                    member.ping()


class Sweep:
    """Looks whether each child still exists, in case nobody told of its end."""

    def __init__(self, interval_ms: int, members: Callable[[], Iterable[Member]], clock: Clock) -> None:
        self.name = "sweep"
        self._interval = interval_ms / 1000
        self._members = members
        self._clock = clock

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(self._interval)
            for member in self._members():
                member.child.look()
