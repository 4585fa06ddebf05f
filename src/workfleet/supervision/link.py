"""The two ends of a worker's control socket: messages of `control.py` as lines of JSON, in the running event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from .control import Beat, FromSupervisor, FromWorker, Measured

_READ = 65_536
_MAX_UNSENT = 1_048_576
_LAST_WORDS_S = 1.0
_Message = TypeVar("_Message")


class SupervisorEnd:
    """The supervisor's end of one worker's socket."""

    def __init__(self, sock: socket.socket, on_message: Callable[[FromWorker], None]) -> None:
        decoder = msgspec.json.Decoder[FromWorker](FromWorker)
        self._line = _Line(sock, lambda raw: _deliver(raw, decoder, on_message), lambda: None)

    def send(self, message: FromSupervisor) -> None:
        """Say something, without waiting. To a worker that is gone it does nothing."""
        self._line.send(message)

    def close(self) -> None:
        """Hear out what is still unread, then hang up."""
        self._line.hear_out()
        self._line.close()


class WorkerEnd:
    """The worker's end. `on_orphaned` is called when the supervisor is gone: it ends this process, at once.

    (On Linux the kernel has done so already, see `lifeline.py`.)
    """

    def __init__(
        self, control_fd: int, on_message: Callable[[FromSupervisor], None], on_orphaned: Callable[[], None]
    ) -> None:
        decoder = msgspec.json.Decoder[FromSupervisor](FromSupervisor)
        sock = socket.socket(fileno=control_fd)
        self._line = _Line(sock, lambda raw: _deliver(raw, decoder, on_message), on_orphaned)

    def send(self, message: FromWorker) -> None:
        """Say something, without waiting. While the supervisor does not read, what is said again soon is dropped, the
        rest is kept."""
        if not (isinstance(message, Beat | Measured) and self._line.unsent > _MAX_UNSENT):
            self._line.send(message)

    def close(self) -> None:
        """Hang up, once what was said has left (at most a second). `on_orphaned` is not called any more."""
        self._line.close()


class _Line:
    """Lines over a socket. Sending never waits: what the socket does not take is kept and sent when it does."""

    def __init__(self, sock: socket.socket, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        sock.setblocking(False)
        sock.set_inheritable(False)
        self._sock, self._on_line, self._on_end = sock, on_line, on_end
        self._unread, self._unsent = bytearray(), bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def send(self, message: Struct) -> None:
        if self._sock.fileno() != -1:
            self._unsent += msgspec.json.encode(message) + b"\n"
            self._writable()

    def hear_out(self) -> None:
        while self._read():
            pass

    def close(self) -> None:
        if self._sock.fileno() == -1:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        try:
            self._sock.settimeout(_LAST_WORDS_S)
            self._sock.sendall(self._unsent)
        except OSError:
            pass  # the other side is gone, or does not read: there is nobody to tell
        self._sock.close()

    def _readable(self) -> None:
        if self._read() is None:
            self._loop.remove_reader(self._sock.fileno())
            self._on_end()

    def _read(self) -> int | None:
        """How many bytes were read and delivered; None at the end."""
        try:
            data = self._sock.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""  # reset by the other side's end
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._on_line(bytes(line))
        return len(data)

    def _writable(self) -> None:
        try:
            sent = self._sock.send(self._unsent) if self._unsent else 0
            del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._unsent.clear()  # the other side is gone; reading tells so
        if self._unsent:
            self._loop.add_writer(self._sock.fileno(), self._writable)
        else:
            self._loop.remove_writer(self._sock.fileno())


def _deliver(raw: bytes, decoder: msgspec.json.Decoder[_Message], on_message: Callable[[_Message], None]) -> None:
    try:
        message = decoder.decode(raw)
    except msgspec.MsgspecError:
        return  # user code wrote to a descriptor that is not its own: no reason to lose the worker
    on_message(message)
