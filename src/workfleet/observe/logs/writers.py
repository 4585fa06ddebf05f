"""Writing to what a descriptor leads to. Pipes, terminals and sockets have a reader who may stand still: where the
system lets us, writing to them does not block, and where it does not, only a thread that may wait may do it."""

from __future__ import annotations

import os
import select
import socket
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass

Write = Callable[[memoryview], int]
"""Returns how many bytes were taken. Raises OSError, and BlockingIOError where it would have to wait."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes to what a descriptor leads to at the moment."""

    to: os.stat_result
    write: Write
    blocks: bool
    """Writing waits for the reader."""
    close: Callable[[], None]

    def leads_to(self, fd: int) -> bool:
        """Whether the descriptor leads there still: programs may redirect it. Raises OSError."""
        now = os.fstat(fd)
        return (now.st_ino, now.st_dev) == (self.to.st_ino, self.to.st_dev)


def writer_for(fd: int) -> Writer:
    """Raises OSError for no descriptor.

    The flag that says whether writing blocks is shared by all processes that have inherited a descriptor. That of `fd`
    is left alone: what it leads to is opened once more, for this process."""
    there = os.fstat(fd)
    plain = Writer(there, lambda data: os.write(fd, data), blocks=False, close=_nothing)
    if stat.S_ISSOCK(there.st_mode):
        # With a default timeout, making the object would set that flag.
        return _to_socket(fd, there) if socket.getdefaulttimeout() is None else _blocking(plain)
    if not (stat.S_ISFIFO(there.st_mode) or os.isatty(fd)):
        return plain  # nobody waits long for a file
    try:
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # no Linux, or it is another user's
        return _blocking(plain)
    return Writer(there, lambda data: os.write(own, data), blocks=False, close=lambda: os.close(own))


def has_room(fd: int, wait_ms: int = 0) -> bool:
    """Whether something can be written now or within this time. What fails can be: writing tells why."""
    look = select.poll()
    look.register(fd, select.POLLOUT)
    return bool(look.poll(wait_ms))


def without_blocking(do: Callable[[], object], patience_s: float) -> None:
    """Do what may wait for a reader in a thread of its own, and go on after this time at the latest. Its OSError and
    ValueError are nobody's: there is no place left to tell them."""

    def try_it() -> None:
        try:
            do()
        except (OSError, ValueError):
            pass

    try:
        thread = threading.Thread(target=try_it, name="workfleet-standard-error", daemon=True)
        thread.start()
    except RuntimeError:  # no further thread can be started
        return
    thread.join(patience_s)


def on_standard_error(text: str, patience_s: float) -> None:
    """A line on standard error, whatever has become of it. Not by Python's object: a thread that waits in it at the
    end of the process would keep its lock, which is fatal."""
    data = f"{text}\n".encode(errors="backslashreplace")
    without_blocking(lambda: os.write(2, data), patience_s)


def _to_socket(fd: int, there: os.stat_result) -> Writer:
    own = socket.socket(fileno=os.dup(fd))
    return Writer(there, lambda data: own.send(data, socket.MSG_DONTWAIT), blocks=False, close=own.close)


def _blocking(writer: Writer) -> Writer:
    return Writer(writer.to, writer.write, blocks=True, close=writer.close)


def _nothing() -> None:
    """The descriptor is not ours."""
