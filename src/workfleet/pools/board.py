"""One page of memory that parent and child share: what a child was doing is known even after it was killed.

The child writes, the parent reads. A killed child cannot say which call it had begun; without knowing, the calls that
were sent ahead to it would have to fail with it. Standard library only: the child imports this.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import Final

_SIZE = mmap.PAGESIZE
_CALL = struct.Struct("<Q")
_PHASE_AT = _CALL.size
_BEATS = struct.Struct("<Q")
_BEATS_AT = 2 * _CALL.size
_HALT_AT = 3 * _CALL.size

PHASES: Final = ("starting the interpreter", "importing", "building", "in @on_start", "ready", "in @on_shutdown")
IMPORTING: Final = 1
BUILDING: Final = 2
STARTING: Final = 3
READY: Final = 4
STOPPING: Final = 5


def create() -> int:
    """A descriptor of new shared memory."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("workfleet-board")
    else:
        import tempfile  # here, for a quick start where it is not needed

        fd, path = tempfile.mkstemp(prefix="workfleet-board-")
        os.unlink(path)
    os.truncate(fd, _SIZE)
    return fd


class Board:
    """The page behind a descriptor. The descriptor can be closed afterwards."""

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, _SIZE)
        self._beats = 0

    def begin(self, call_id: int) -> bool:
        """Child: this call's method runs from now on; False: it was told to begin none. It alone decides whether a call
        was begun, so that none can be run twice."""
        if self._page[_HALT_AT]:
            return False
        _CALL.pack_into(self._page, 0, call_id)
        return True

    def begun(self) -> int:
        """Parent: the last call that was begun; 0 when none was."""
        call_id: int = _CALL.unpack_from(self._page, 0)[0]
        return call_id

    def halt(self) -> None:
        """Parent: it may begin no other call."""
        self._page[_HALT_AT] = 1

    def enter(self, phase: int) -> None:
        self._page[_PHASE_AT] = phase

    def phase(self) -> str:
        return PHASES[self._page[_PHASE_AT]]

    def beat(self) -> None:
        """Child: its loop lives."""
        self._beats += 1
        _BEATS.pack_into(self._page, _BEATS_AT, self._beats)

    def beats(self) -> int:
        """Parent: how often it has been seen to live."""
        beats: int = _BEATS.unpack_from(self._page, _BEATS_AT)[0]
        return beats

    def close(self) -> None:
        self._page.close()
