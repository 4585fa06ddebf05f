"""What the interpreter of a worker writes when it is asked for its stacks, in memory that the supervisor reads.

The worker's faulthandler writes to it from a signal handler, which needs neither the interpreter lock nor the event
loop: so it tells where code stands that holds either. Nobody else writes, and nothing of it reaches a log as raw text.
"""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile

EVERY_THREAD = signal.SIGUSR2
"""Asks for the stacks of all threads. Other threads' frames are read while they may change: for a process that is
about to be killed, or by hand."""
MAIN_THREAD = signal.SIGURG
"""Asks for that of the thread that handles signals, which is the main one. It reads nothing of the others, and leaves
no trace (see `dump_on_signal`): safe for a process that goes on. Where nobody listens to it, it does nothing."""
_MOST = 64 * 1024


class Stacks:
    """The reading end. Its `fd` is given to the worker, and stays open until `close()`."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("workfleet-stacks", os.MFD_CLOEXEC)
        else:
            self.fd, path = tempfile.mkstemp(prefix="workfleet-stacks-")
            os.unlink(path)
        # The worker shares this: what it writes goes behind what is there, also after that was taken.
        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) | os.O_APPEND)

    def take(self) -> str:
        """What was written since it was taken last; "" where nothing was, or it is closed."""
        size = 0 if self.fd < 0 else os.fstat(self.fd).st_size
        if not size:
            return ""
        text = os.pread(self.fd, min(size, _MOST), 0).decode(errors="backslashreplace")
        os.ftruncate(self.fd, 0)
        return text.strip()

    def close(self) -> None:
        """Give it back. Closing twice does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
