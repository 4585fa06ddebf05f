"""Replaces children that are due, a warm one first: it is ready before the old one takes no more calls. A service.

A spare is not started for one child: it follows whichever due child is the first to be between two calls, so that the
pool neither works with fewer children meanwhile nor with more, and a long call holds up nobody else's replacement.
Why a child is due (age, calls, memory, somebody's wish) was decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from workfleet.events import Event, ReplacementFailed
from workfleet.pools.member import Floor, Member
from workfleet.pools.options import PoolOptions
from workfleet.pools.slot import Slot
from workfleet.pools.starter import Starter
from workfleet.ports.clock import Clock

_PLACES_A_SPARE: Final = 4
"""One spare at a time, and one more for each further four children: a pool never starts all of them at once."""


class Recycler:
    """`spares` are the children that start or wait for a place."""

    def __init__(
        self,
        options: PoolOptions,
        starter: Starter,
        places: Callable[[], Iterable[Slot]],
        *,
        floor: Floor,
        joined: Callable[[Member], None],
        clock: Clock,
        draw: Callable[[], float],
        publish: Callable[[Event], None],
    ) -> None:
        self.name = f"recycling of pool {options.name}"
        self.spares: list[Member] = []
        self.recycled = 0
        self._options = options
        self._starter = starter
        self._places = places
        self._floor = floor
        self._joined = joined
        self._clock = clock
        self._draw = draw
        self._publish = publish
        self._failures = 0
        # A spare that starts is in both.
        self._starting: set[asyncio.Task[None]] = set()
        self._pauses: set[asyncio.Task[None]] = set()
        self._closed = False
        self._wake = asyncio.Event()

    def look(self, member: Member | None = None) -> None:
        """Something is due, or is no longer. While no replacement can be started, the due `member` works on."""
        if member is not None and self._failures:
            member.resume()
        self._wake.set()

    def finished(self, member: Member) -> None:
        """It has ended a call: it goes now if it is due and another is ready."""
        if member.due and self.spares:
            warm = self._warm()
            slot = next((slot for slot in self._due() if slot.member is member), None)
            if warm and slot is not None:
                self._hand_over(slot, warm[0])

    def discard(self, why: str) -> None:
        """Ends the spares that there are."""
        for spare in list(self.spares):
            spare.leave(why)

    def close(self, why: str) -> set[asyncio.Task[None]]:
        """Starts none any more and ends those that there are. They are gone when what it returns is done."""
        self._closed = True
        for pause in self._pauses:
            pause.cancel()
        self.discard(why)
        return {*self._starting, *(spare.life for spare in self.spares if spare.life is not None)}

    async def serve(self) -> None:
        while not self._closed:
            await self._wake.wait()
            self._wake.clear()
            self._place()
            for _ in range(self._needed()):
                task = asyncio.create_task(self._start(), name=self.name)
                self._starting.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        self._wake.set()
        if not task.cancelled():
            task.result()

    def _due(self) -> list[Slot]:
        """The places whose child is due, those first whose child can be spared first."""
        due = [
            slot
            for slot in self._places()
            if slot.wanted and slot.member is not None and slot.member.due and slot.member.state in ("ready", "spent")
        ]
        return sorted(due, key=lambda slot: slot.member is not None and slot.member.started)

    def _warm(self) -> list[Member]:
        return [spare for spare in self.spares if spare.state == "ready"]

    def _needed(self) -> int:
        due = self._due()
        places = sum(1 for _ in self._places())
        # Who has had all its calls and ended them does nothing any more: its replacement is no child too many.
        idle = sum(1 for slot in due if slot.member and slot.member.state == "spent" and not len(slot.member.line))
        at_once = max(1, places // _PLACES_A_SPARE, idle)
        return min(len(due), at_once) - len(self._starting) - len(self._warm())

    def _place(self) -> None:
        """Warm children take the places of due ones that have no call just now; those that nobody needs go."""
        due = self._due()
        idle = [slot for slot in due if slot.member is not None and not len(slot.member.line)]
        for spare, slot in zip(self._warm(), idle, strict=False):
            self._hand_over(slot, spare)
        if not due:
            self.discard("it is not needed any more")

    def _hand_over(self, slot: Slot, spare: Member) -> None:
        self.spares.remove(spare)
        self.recycled += 1
        slot.take_over(spare)
        self._joined(spare)
        self._wake.set()

    async def _start(self) -> None:
        """One spare. It ends when that is ready, or some time after it could not be."""
        due = self._due()
        if not due:
            return
        label, number = f"{self._options.name}+", due[0].number
        try:
            spare = await self._starter.start(label, number, self._floor)
        except OSError as error:
            await self._failed(f"it could not be started: {error}")
            return
        assert spare.life is not None
        if self._closed:
            spare.kill("no longer wanted", planned=True)
            await asyncio.wait({spare.life})
            return
        self.spares.append(spare)
        spare.life.add_done_callback(lambda life: self._gone(spare))
        await asyncio.wait({spare.ready, spare.life}, return_when=asyncio.FIRST_COMPLETED)
        if spare.ready.done() and not spare.ready.cancelled():  # perhaps at work in its place by now, or gone from it
            self._failures = 0
        elif not spare.asked:
            await self._failed(spare.why)

    def _gone(self, spare: Member) -> None:
        if spare in self.spares:
            self.spares.remove(spare)
        self._wake.set()

    async def _failed(self, why: str) -> None:
        """Those that should have been replaced work on; it is tried again later."""
        policy = self._options.restart
        self._failures += 1
        wait_ms = max(policy.delay_ms, policy.backoff.delay_ms(self._failures, self._draw()))
        for slot in self._due():
            if slot.member is not None:
                slot.member.resume()
                pid = slot.member.child.pid
                self._publish(
                    ReplacementFailed(pool=self._options.name, pid=pid, slot=slot.number, why=why, retry_ms=wait_ms)
                )
        pause = asyncio.ensure_future(self._clock.sleep(wait_ms / 1000))
        self._pauses.add(pause)
        try:
            await asyncio.wait({pause})
        finally:
            pause.cancel()
            self._pauses.discard(pause)
