"""The loop's sign of progress on the board: a loop that does not write it any more is stuck."""

from __future__ import annotations

from workfleet.model.jobs import Claim
from workfleet.ports.clock import Clock
from workfleet.supervision.board import Board

_EVERY_S = 1.0


class NoBoard:
    """Stands where nobody reads a board: what has no place on one is renewed by its own process."""

    def put(self, claim: Claim, *, timeout_ms: int | None = None, since_ms: int | None = None, label: str = "") -> int:
        return -1

    def ended(self, slot: int) -> None:
        return None

    def clear(self, slot: int) -> None:
        return None

    def beat(self) -> None:
        return None

    def rest(self) -> None:
        return None


class LoopProgress:
    """A Service: it beats once a second."""

    name = "loop progress"

    def __init__(self, board: Board | NoBoard, clock: Clock) -> None:
        self._board, self._clock = board, clock

    async def serve(self) -> None:
        try:
            while True:
                self._board.beat()
                await self._clock.sleep(_EVERY_S)
        finally:
            self._board.rest()  # what is closed after this may take its time, and blocks nobody
