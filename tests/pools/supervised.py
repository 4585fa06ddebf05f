"""What the children of the supervision tests serve: at work in every way, stuck in every way. Imports little."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from workfleet.pools import child_context
from workfleet.pools.declare import on_shutdown, public


class Worker:
    """With a journal it writes down that its hook has run."""

    def __init__(self, journal: str = "") -> None:
        self.journal = Path(journal) if journal else None
        self.calls = 0

    @on_shutdown
    def end(self) -> None:
        if self.journal is not None:
            with self.journal.open("a") as file:
                file.write(f"{os.getpid()}\n")

    @public
    def pid(self) -> int:
        return os.getpid()

    @public
    def count(self) -> tuple[int, int]:
        """The child, and how many such calls it has had."""
        self.calls += 1
        return os.getpid(), self.calls

    @public
    def wait_for(self, gate: str, mark: str = "") -> int:
        return waited(gate, mark)

    @public
    def quick(self, gate: str = "", mark: str = "") -> int:
        """Without a gate."""
        return waited(gate, mark) if gate else os.getpid()

    @public
    def block(self, mark: str) -> None:
        """Waits for what never comes, with no timeout."""
        Path(mark).write_text(str(os.getpid()))
        ours, theirs = socket.socketpair()
        ours.recv(1)
        theirs.close()

    @public
    def deadlock(self, mark: str) -> None:
        Path(mark).write_text(str(os.getpid()))
        lock = threading.Lock()
        with lock:
            lock.acquire()

    @public
    def compute(self, seconds: float) -> int:
        until, turns = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            turns += 1
        return turns

    @public
    def compute_in_c(self, letters: int) -> bool:
        """Holds the interpreter lock for its whole time."""
        return re.match(r"(a+)+$", "a" * letters + "b") is None

    @public
    def run_program(self, seconds: float) -> int:
        """Waits for another program that computes."""
        code = f"import time; until = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass"
        return subprocess.run([sys.executable, "-S", "-c", code], check=True).returncode

    @public
    async def wait_async(self, seconds: float) -> int:
        import asyncio

        await asyncio.sleep(seconds)
        return os.getpid()

    @public
    def tell(self, times: int, pause: float) -> int:
        context = child_context.current()
        assert context is not None
        for number in range(times):
            time.sleep(pause)
            context.progress(number)
        return times

    @public
    def numbers(self, upto: int) -> Iterator[int]:
        yield from range(upto)

    @public
    def one_then_block(self, mark: str) -> Iterator[int]:
        yield 1
        Path(mark).write_text(str(os.getpid()))
        ours, theirs = socket.socketpair()
        ours.recv(1)
        theirs.close()

    @public
    def rest(self, seconds: float) -> None:
        """Ends by itself, and does nothing until then."""
        time.sleep(seconds)

    @public
    def bulky(self, size: int, seconds: float) -> bytes:
        time.sleep(seconds)
        return bytes(size)

    @public
    def crash(self, megabytes: int = 0) -> None:
        """Holding so much memory."""
        held = bytearray(megabytes * 1_000_000)
        held[::4096] = b"x" * len(held[::4096])
        os._exit(3)


def waited(gate: str, mark: str) -> int:
    if mark:
        Path(mark).write_text(str(os.getpid()))
    while not Path(gate).exists():
        time.sleep(0.01)
    return os.getpid()


def journalled(journal: str) -> Worker:
    return Worker(journal)


def slowly(seconds: float, only_if: str = "") -> Worker:
    """Takes so long to be built; with a file only while that is there."""
    if not only_if or Path(only_if).exists():
        time.sleep(seconds)
    return Worker()


def unless(file: str) -> Worker:
    """Cannot be built while the file is there."""
    if Path(file).exists():
        raise RuntimeError("not now")
    return Worker()


def once_gone(file: str) -> Worker:
    """Is not built before the file has gone."""
    while Path(file).exists():
        time.sleep(0.01)
    return Worker()
