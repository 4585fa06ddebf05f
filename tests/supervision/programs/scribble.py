"""Notes and clears claims on an inherited board without end, as fast as it can."""

import sys

from workfleet.clock import SystemClock
from workfleet.model.jobs import Claim
from workfleet.supervision.board import Board

board = Board.attach(int(sys.argv[1]), clock=SystemClock())
number, slots = 0, []
while True:
    number += 1
    slots.append(board.put(Claim(f"job-{number}", f"{number**5}", "q")))
    if len(slots) == board.slots:
        board.clear(slots.pop(0))
