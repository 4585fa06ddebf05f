"""Keeps the locks on the boards: renews each when a third of its TTL has passed, whatever blocks the worker's loop.

What comes of it is written beside the note, where `lock.check()` of code that blocks the loop reads it. It reads boards
and calls the store of locks, which may be another one than the jobs'; so an outage of one does not hold up the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from ..errors import StoreUnavailable
from ..events import Event, StoreTrouble
from ..ports.clock import Clock
from ..ports.stores import LockStore, Store
from .board import Board, BoardEntry
from .insist import insist

_LOOK_S = 0.25
"""The shortest TTL is a second: it is renewed at 0.6 s at the latest, before two thirds of it are over."""

_FREED_S = 1.0


class LockKeeper:
    """A Service. `boards` is asked at each look, because workers come and go."""

    name = "lock keeper"

    def __init__(
        self,
        boards: Callable[[], Iterable[Board]],
        locks: LockStore,
        *,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._boards, self._locks = boards, locks
        self._clock, self._publish = clock, publish
        self._renewed: dict[tuple[str, str], float] = {}
        """Since when each lock is held, at the latest, in milliseconds of the monotonic clock."""
        self._lost: set[tuple[str, str]] = set()
        self._failing = False
        self._offset_ms = self._wall_offset_ms()

    async def serve(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_S)
            await self._look()

    async def _look(self) -> None:
        """A renewal without an answer is asked for again at the next look; an outage is told once."""
        notes = [(board, entry) for board in self._boards() for entry in board.entries() if entry.kind == "lock"]
        slept_ms = self._slept_ms()
        self._renewed = {_key(each): self._renewed.get(_key(each), each.noted_ms) - slept_ms for _, each in notes}
        self._lost &= set(self._renewed)
        due = [(board, entry) for board, entry in notes if self._is_due(entry)]
        if not due:
            return
        trouble = [error for error in await asyncio.gather(*(self._renew(*note) for note in due)) if error is not None]
        if trouble and not self._failing:
            self._publish(StoreTrouble(what="renewing locks", error=trouble[0]))
        self._failing = bool(trouble)

    def _is_due(self, entry: BoardEntry) -> bool:
        held_ms = self._clock.monotonic() * 1000 - self._renewed[_key(entry)]
        return held_ms >= entry.ttl_ms / 3 and _key(entry) not in self._lost

    async def _renew(self, board: Board, entry: BoardEntry) -> str | None:
        """What was wrong with the store, if anything. Each has its own time, so that a slow one holds up no other."""
        asked_ms = int(self._clock.monotonic() * 1000)
        try:
            async with asyncio.timeout(entry.ttl_ms / 3000):
                grant = await self._locks.renew(entry.name, entry.owner, entry.ttl_ms)
        except TimeoutError:
            return f"no answer within {entry.ttl_ms // 3} ms"
        except StoreUnavailable as error:
            return str(error)
        if grant is None:
            self._lost.add(_key(entry))
            board.lost(entry)
        else:
            self._renewed[_key(entry)] = asked_ms
            board.renewed(entry, asked_ms)
        return None

    def _slept_ms(self) -> float:
        """How long the machine slept since the last look: TTLs went on meanwhile, and the monotonic clock did not."""
        offset_ms = self._wall_offset_ms()
        slept_ms, self._offset_ms = offset_ms - self._offset_ms, offset_ms
        return slept_ms if slept_ms > _LOOK_S * 1000 else 0

    def _wall_offset_ms(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000


class LocksElsewhere:
    """A Service: a lock keeper with a store of its own, where the locks are in another one than the jobs.

    It waits for that store on its own, so that an outage there holds up no lease."""

    name = LockKeeper.name

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        boards: Callable[[], Iterable[Board]],
        *,
        timeout_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        """`timeout_ms` is how long one attempt to open it may take."""
        self._open_store, self._boards = open_store, boards
        self._timeout_ms, self._clock, self._publish = timeout_ms, clock, publish
        self._dead: list[BoardEntry] = []
        self._changed = asyncio.Condition()

    async def free(self, entries: Iterable[BoardEntry]) -> None:
        """Release the locks of a worker that is gone. A store that does not answer soon does so later: nobody waits for
        it, and they expire by themselves."""
        async with self._changed:
            self._dead += entries
            self._changed.notify_all()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FREED_S):
                    await self._changed.wait_for(lambda: not self._dead)

    async def serve(self) -> None:
        what = "opening the store of the locks"
        store = await insist(
            self._open_store, what, timeout_ms=self._timeout_ms, clock=self._clock, publish=self._publish
        )
        keeper = LockKeeper(self._boards, store.locks, clock=self._clock, publish=self._publish)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(keeper.serve())
                both.create_task(self._free_all(store.locks))
        finally:
            await store.close()

    async def _free_all(self, locks: LockStore) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._dead)
            await insist(
                partial(locks.release, self._dead[0].name, self._dead[0].owner),
                "freeing the locks of a dead worker",
                timeout_ms=self._timeout_ms,
                clock=self._clock,
                publish=self._publish,
            )
            async with self._changed:
                self._dead.pop(0)
                self._changed.notify_all()


def _key(entry: BoardEntry) -> tuple[str, str]:
    return entry.name, entry.owner
