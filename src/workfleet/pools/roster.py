"""The places of a pool: as many as its size, each with a child. Decides by the restart policy when the pool has failed.

Grows and shrinks; children that go finish their calls first. Gives ready children to the desk, and takes them away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final, Literal

from workfleet.errors import PoolError
from workfleet.errors import PoolFailed as PoolFailedError
from workfleet.events import Event, PoolFailed, PoolScaled
from workfleet.pools.calls import Call
from workfleet.pools.describe import described
from workfleet.pools.desk import Desk
from workfleet.pools.member import Member
from workfleet.pools.options import PoolOptions
from workfleet.pools.recycling import Recycler
from workfleet.pools.restarts import Restarts
from workfleet.pools.slot import Slot
from workfleet.pools.starter import Starter
from workfleet.pools.stats import ChildStats
from workfleet.ports.clock import Clock

State = Literal["new", "running", "failed", "stopping", "stopped"]

_SHOWN: Final = 4_000
"""How much of a child's last words an event carries."""
_SPREAD: Final = 0.1
"""The share of the greatest age that is drawn at random, so that children of one age are not replaced all at once."""


class Roster:
    """Slots by number. It is the floor that members report to, and the judge of deaths."""

    def __init__(
        self,
        options: PoolOptions,
        desk: Desk,
        starter: Starter,
        *,
        clock: Clock,
        draw: Callable[[], float],
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
        self.recycler = Recycler(
            options,
            starter,
            self._places,
            floor=self,
            joined=self._take_in,
            clock=clock,
            draw=draw,
            publish=publish,
        )
        self._options = options
        self._pool = options.name
        self._desk = desk
        self._starter = starter
        self._deaths = Restarts(options.restart, draw, together=options.supervision == "one_for_all")
        self._clock = clock
        self._draw = draw
        self._publish = publish
        self._last_words = ""
        self._slots: dict[int, Slot] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def _places(self) -> list[Slot]:
        return list(self._slots.values())

    def members(self) -> list[Member]:
        """Every child that lives: those in places, those that leave them, and spares."""
        found = list(self.recycler.spares)
        for slot in self._slots.values():
            found += slot.leaving
            if slot.member is not None:
                found.append(slot.member)
        return [member for member in found if member.state != "gone"]

    def ready(self) -> int:
        """Places whose child is well; one that waits for its replacement counts."""
        return sum(1 for slot in self._slots.values() if slot.member and slot.member.state in ("ready", "spent"))

    def able(self) -> int:
        """Those of them whose child takes calls or runs one."""
        members = [slot.member for slot in self._slots.values() if slot.member]
        return sum(1 for each in members if each.state == "ready" or (each.state == "spent" and len(each.line)))

    def scale(self, size: int, why: str = "it was asked for") -> None:
        """Children come as their start and go as their calls allow. A pool that had failed tries anew."""
        if self.state == "failed":
            self._deaths.forget()
            self.reason = self._last_words = ""
            self._desk.open()
        old, before = self.size, self.state
        self.size, self.state = size, "running"
        wanted = [slot for slot in self._slots.values() if slot.wanted]
        for slot in sorted(wanted, key=_busyness)[: max(len(wanted) - size, 0)]:
            slot.give_up("the pool was scaled down")
        free = (number for number in count() if number not in self._slots)
        for number in [next(free) for _ in range(size - len(wanted))]:
            self._fill(number)
        self._tell_places()
        if old != size and before != "new":
            self._publish(PoolScaled(pool=self._pool, old=old, new=size, why=why))

    def _tell_places(self) -> None:
        self._desk.places([slot.number for slot in self._slots.values() if slot.wanted])

    def _fill(self, number: int) -> None:
        slot = self._slots[number] = Slot(
            self._pool,
            number,
            starter=self._starter,
            floor=self,
            verdicts=self,
            clock=self._clock,
            publish=self._publish,
        )
        task = self._tasks[number] = asyncio.create_task(slot.serve(), name=slot.name)

        def ended(task: asyncio.Task[None]) -> None:
            del self._slots[number], self._tasks[number]
            if not task.cancelled() and (error := task.exception()) is not None:
                self._fail(f"its supervision failed: {error!r}")

        task.add_done_callback(ended)

    def recycle(self) -> None:
        """Replaces every child by a new one, one after another. A pool that had failed tries anew."""
        if self.state == "failed":
            self.scale(self.size)
        for slot in self._slots.values():
            if slot.member is not None:
                slot.member.retire("recycled")

    async def wait_ready(self) -> None:
        """Until there are as many ready children as the pool's size. Raises `PoolFailed` when there will not be."""
        while self.ready() < self.size:
            if self.state == "failed":
                raise self._failure()
            if self.state != "running":
                raise PoolError(f"pool {self._pool!r} is {self.state}")
            self._changed.clear()
            await self._changed.wait()

    async def stop(self, seconds: float) -> int:
        """Running calls may end and shutdown hooks run; at the deadline the rest is killed. Returns how many were."""
        self.state = "stopping"
        self._desk.close(lambda: PoolError(f"pool {self._pool!r} is stopping: it takes no calls"))
        spares = self.recycler.close("the pool is stopping")
        for slot in self._slots.values():
            slot.give_up("the pool is stopping")
        tasks = spares | set(self._tasks.values())
        late: set[asyncio.Task[None]] = set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
        killed = self.members() if late else []
        for member in killed:
            member.kill("the pool's time to stop was over", planned=True)
        if late:
            await asyncio.wait(late)
        self.state = "stopped"
        return len(killed)

    def children(self) -> tuple[ChildStats, ...]:
        """In the order of their places, spares last."""
        return described(self._slots.values(), self.recycler.spares, self._clock.monotonic())

    # What slots ask.

    def died(self, slot: int, started: float, how: str, last_words: str, *, ready: bool) -> float | None:
        """Seconds until the next start; None: there is none."""
        if self.state != "running":
            return None
        wait = self._deaths.died(slot, started=started, now=self._clock.monotonic(), size=self.size, ready=ready)
        self._last_words = last_words
        if wait is None:
            others = any(other.wanted for other in self._slots.values() if other.number != slot)
            if self._deaths.enabled:
                self._fail(f"{len(self._deaths)} children died and none completed a call; the last: {how}")
            elif others:
                self.size -= 1
                self._slots[slot].wanted = False
                self._tell_places()
                self._changed.set()
            else:
                self._fail(f"its last child died and restarts are off: {how}")
        else:
            self.restarts += 1
        return wait

    def lost(self, slot: int) -> None:
        """Replaces the children that must not outlive the one that was there, as Erlang's supervisors do: all, or those
        of later places. They end the calls that they run."""
        how = self._options.supervision
        if how == "one_for_one" or self.state != "running":
            return
        for other in self._slots.values():
            if other.member is not None and (other.number > slot or (how == "one_for_all" and other.number < slot)):
                other.member.leave(f"the child of place {slot} died ({how})")
        self.recycler.discard(f"the child of place {slot} died ({how})")

    def _fail(self, reason: str) -> None:
        self.state, self.reason = "failed", reason
        self._desk.close(self._failure)
        for slot in self._slots.values():
            slot.give_up("the pool has failed")
        self.recycler.discard("the pool has failed")
        self._publish(PoolFailed(pool=self._pool, reason=reason, last_words=self._last_words[-_SHOWN:]))
        self._changed.set()

    def _failure(self) -> PoolFailedError:
        return PoolFailedError(self._pool, self.reason, self._last_words)

    # What members tell.

    def joined(self, member: Member) -> None:
        if member not in self.recycler.spares:  # else it waits for its place
            self._take_in(member)

    def _take_in(self, member: Member) -> None:
        if (most := self._options.max_age_ms) is not None:
            member.age(most * (1 - _SPREAD * self._draw()))
        self._desk.join(member)
        self._changed.set()
        if member.due:
            self.recycler.look()

    def due(self, member: Member) -> None:
        self.recycler.look(member)

    def finished(self, member: Member, calls: list[Call], failed: int) -> None:
        self.calls += len(calls)
        self.failures += failed
        answered = member.state != "gone"
        if answered:
            self._deaths.call_completed(member.slot)
            if member.due:
                self.recycler.finished(member)
        self._desk.finished(member, calls, answered=answered)

    def give_back(self, member: Member, calls: list[Call]) -> None:
        self._desk.leave(member)
        self._desk.take_back(calls)
        if member.due:  # it needs no replacement any more
            self.recycler.look()


def _busyness(slot: Slot) -> tuple[bool, int, int]:
    """Those without a ready child go first, then the idle, then the youngest."""
    ready = slot.member is not None and slot.member.state == "ready"
    return ready, len(slot.member.line) if slot.member is not None else 0, -slot.number
