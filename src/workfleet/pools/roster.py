"""The places of a pool: as many as its size, each with a child. Decides by the restart policy when the pool has failed.

Grows and shrinks; children that go finish their calls first. Gives ready children to the desk, and takes them away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Literal

from workfleet.errors import PoolError
from workfleet.errors import PoolFailed as PoolFailedError
from workfleet.events import Event, PoolFailed, PoolScaled
from workfleet.pools.calls import Call
from workfleet.pools.desk import Desk
from workfleet.pools.member import Member
from workfleet.pools.restarts import Restarts
from workfleet.pools.slot import Slot

State = Literal["new", "running", "failed", "stopping", "stopped"]


class Roster:
    """Slots by number. It is the floor that members report to, and the judge of deaths."""

    def __init__(
        self,
        pool: str,
        desk: Desk,
        restarts: Restarts,
        *,
        make_slot: Callable[[Roster, int], Slot],
        now: Callable[[], float],
        note: Callable[[float], None],
        publish: Callable[[Event], None],
    ) -> None:
        self.note = note
        self.state: State = "new"
        self.reason = ""
        self.size = 0
        self.calls = 0
        self.failures = 0
        self.restarts = 0
        self._pool = pool
        self._desk = desk
        self._deaths = restarts
        self._make_slot = make_slot
        self._now = now
        self._publish = publish
        self._slots: dict[int, Slot] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def members(self) -> list[Member]:
        return [slot.member for slot in self._slots.values() if slot.member is not None]

    def ready(self) -> int:
        return sum(1 for member in self.members() if member.state == "ready")

    def scale(self, size: int) -> None:
        """Children come as their start and go as their calls allow. A pool that had failed tries anew."""
        if self.state == "failed":
            self._deaths.call_completed()
            self._desk.open()
        old, before = self.size, self.state
        self.size, self.state = size, "running"
        wanted = [slot for slot in self._slots.values() if slot.wanted]
        for slot in sorted(wanted, key=_busyness)[: max(len(wanted) - size, 0)]:
            slot.give_up("the pool was scaled down")
        free = (number for number in count() if number not in self._slots)
        for number in [next(free) for _ in range(size - len(wanted))]:
            self._fill(number)
        if old != size and before != "new":
            self._publish(PoolScaled(pool=self._pool, old=old, new=size))

    def _fill(self, number: int) -> None:
        slot = self._slots[number] = self._make_slot(self, number)
        task = self._tasks[number] = asyncio.create_task(slot.serve(), name=slot.name)

        def ended(task: asyncio.Task[None]) -> None:
            del self._slots[number], self._tasks[number]
            if not task.cancelled() and (error := task.exception()) is not None:
                self._fail(f"its supervision failed: {error!r}")

        task.add_done_callback(ended)

    async def wait_ready(self) -> None:
        """Until there are as many ready children as the pool's size. Raises `PoolFailed` when there will not be."""
        while self.ready() < self.size:
            if self.state == "failed":
                raise PoolFailedError(self._pool, self.reason)
            if self.state != "running":
                raise PoolError(f"pool {self._pool!r} is {self.state}")
            self._changed.clear()
            await self._changed.wait()

    async def stop(self, seconds: float) -> int:
        """Running calls may end and shutdown hooks run; at the deadline the rest is killed. Returns how many were."""
        self.state = "stopping"
        self._desk.close(lambda: PoolError(f"pool {self._pool!r} is stopping: it takes no calls"))
        for slot in self._slots.values():
            slot.give_up("the pool is stopping")
        tasks = list(self._tasks.values())
        late: set[asyncio.Task[None]] = set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
        killed = self.members() if late else []
        for member in killed:
            member.kill("the pool's time to stop was over")
        if late:
            await asyncio.wait(late)
        self.state = "stopped"
        return len(killed)

    # What slots ask.

    def died(self, slot: int, started: float, how: str) -> float | None:
        """Seconds until the next start; None: there is none."""
        if self.state != "running":
            return None
        wait = self._deaths.died(slot, started=started, now=self._now(), size=self.size)
        if wait is None:
            others = any(other.wanted for other in self._slots.values() if other.number != slot)
            if self._deaths.enabled:
                self._fail(f"{len(self._deaths)} children died and none completed a call; the last: {how}")
            elif others:
                self.size -= 1
                self._changed.set()
            else:
                self._fail(f"its last child died and restarts are off: {how}")
        else:
            self.restarts += 1
        return wait

    def _fail(self, reason: str) -> None:
        self.state, self.reason = "failed", reason
        self._desk.close(lambda: PoolFailedError(self._pool, reason))
        for slot in self._slots.values():
            slot.give_up("the pool has failed")
        self._publish(PoolFailed(pool=self._pool, reason=reason))
        self._changed.set()

    # What members tell.

    def joined(self, member: Member) -> None:
        self._desk.join(member)
        self._changed.set()

    def finished(self, member: Member, call: Call, micros: int, *, failed: bool) -> None:
        self.calls += 1
        self.failures += failed
        answered = member.state != "gone"
        if answered:
            self._deaths.call_completed()
        self._desk.finished(call, micros if answered else None)

    def give_back(self, member: Member, calls: list[Call]) -> None:
        self._desk.leave(member)
        self._desk.take_back(calls)


def _busyness(slot: Slot) -> tuple[bool, int, int]:
    """Those without a ready child go first, then the idle, then the youngest."""
    ready = slot.member is not None and slot.member.state == "ready"
    return ready, len(slot.member.line) if slot.member is not None else 0, -slot.number
