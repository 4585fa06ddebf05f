"""Keeps what is on the boards: renews the leases of running jobs. `lock_keeper.py` does so for locks.

Every third of a lease it renews, in one call, the jobs that have run for longer than a third; so short jobs cost no
renewal at all, and a long one always has a third of its lease left when the next pass comes. It reads boards and calls
the store; it knows neither workers nor jobs beyond their claims.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from ..events import Event
from ..ports.clock import Clock
from ..ports.jobs import JobStore
from .board import Board, BoardEntry
from .insist import insist

_LOOK_S = 1.0
_WHAT = "renewing leases"

OnLost = Callable[[Board, BoardEntry], None]


class Keeper:
    """A Service. `boards` is asked at each look, because workers come and go.

    `on_lost` hears, once, of a note whose claim the store says is somebody else's by now.
    """

    name = "keeper"

    def __init__(
        self,
        boards: Callable[[], Iterable[Board]],
        jobs: JobStore,
        *,
        lease_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
        on_lost: OnLost | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`draw` is the random number of the waits in an outage."""
        self._boards, self._jobs = boards, jobs
        self._lease_ms, self._clock, self._publish = lease_ms, clock, publish
        self._on_lost, self._draw = on_lost, draw
        self._lost: set[tuple[str, str]] = set()
        self._jobs_at = 0.0
        self._offset_ms = self._wall_offset_ms()

    async def serve(self) -> None:
        # A machine that slept is seen soon; looking costs no store call.
        look_s = min(_LOOK_S, self._lease_ms / 3000)
        while True:
            await self._clock.sleep(look_s)
            await insist(
                self._pass,
                _WHAT,
                timeout_ms=self._lease_ms // 3,
                clock=self._clock,
                publish=self._publish,
                draw=self._draw,
            )

    async def _pass(self) -> None:
        """One look. Safe to repeat: a renewal that was done already is only done again."""
        now_s, offset_ms = self._clock.monotonic(), self._wall_offset_ms()
        slept_ms = max(offset_ms - self._offset_ms, 0)
        if now_s >= self._jobs_at or slept_ms > self._lease_ms / 3:
            notes = [(board, entry) for board in self._boards() for entry in board.entries() if entry.kind == "job"]
            self._lost &= {_key(note) for note in notes}
            await self._renew_jobs(notes, held_since_ms=now_s * 1000 + slept_ms - self._lease_ms / 3)
            self._jobs_at = now_s + self._lease_ms / 3000
        self._offset_ms = offset_ms

    def _wall_offset_ms(self) -> float:
        """Grows by the time that the machine slept: leases went on meanwhile, and the monotonic clock did not."""
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    async def _renew_jobs(self, notes: list[tuple[Board, BoardEntry]], held_since_ms: float) -> None:
        old = [note for note in notes if note[1].noted_ms <= held_since_ms and _key(note) not in self._lost]
        if not old:
            return
        answers = await self._jobs.renew([entry.claim for _, entry in old], self._lease_ms)
        for note, renewed in zip(old, answers, strict=True):
            if not renewed:
                self._tell_lost(note)

    def _tell_lost(self, note: tuple[Board, BoardEntry]) -> None:
        """A note that has been cleared meanwhile was settled: the store forgets it a moment before the board."""
        self._lost.add(_key(note))
        board, entry = note
        still = {_key((board, each)) for each in board.entries()}
        if self._on_lost is not None and _key(note) in still:
            self._on_lost(board, entry)


def _key(note: tuple[Board, BoardEntry]) -> tuple[str, str]:
    return note[1].name, note[1].owner
