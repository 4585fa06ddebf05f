"""What the tests of the SQLite store share: a file, an open store on it, and a look at it from outside."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
import pytest_asyncio

from workfleet.clock import SystemClock
from workfleet.stores.sqlite.store import SqliteStore

CHILD = Path(__file__).with_name("child.py")

Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
def path() -> Iterator[Path]:
    """A store's path, short enough that the sockets beside it have room for their names (107 bytes on Linux)."""
    with TemporaryDirectory(prefix="wf-") as folder:
        yield Path(folder) / "store.db"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own, that can be filled and made read-only. Needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest_asyncio.fixture
async def sqlite(path: Path) -> AsyncIterator[SqliteStore]:
    """A store on `path` with the system's clock."""
    opened = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=True)
    yield opened
    await opened.close()


@pytest.fixture
def outside(path: Path) -> Iterator[Callable[[str], object]]:
    """Runs SQL on the file behind the store's back. The same library, so no lock is lost."""
    connections: list[apsw.Connection] = []

    def run(sql: str) -> object:
        if not connections:
            connections.append(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE))
        return connections[0].execute(sql).get

    yield run
    for connection in connections:
        connection.close()


@asynccontextmanager
async def starter(path: Path) -> AsyncIterator[Start]:
    """Starts `child.py` on the file. What still runs at the end is killed."""
    children: list[asyncio.subprocess.Process] = []

    async def start_child(command: str, worker: str = "child") -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), command, str(path), worker, stdout=asyncio.subprocess.PIPE, env={**os.environ}
        )
        children.append(child)
        return child

    yield start_child
    for child in children:
        if child.returncode is None:
            child.kill()
        await child.communicate()


@pytest_asyncio.fixture
async def start(path: Path) -> AsyncIterator[Start]:
    """A `starter` on the test's file."""
    async with starter(path) as start_child:
        yield start_child
