"""What is attacked. A method that is to be killed writes its pid into the file `mark` when it has come that far."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from workfleet.pools.declare import public

LARGE = 64_000_000
MB = 1_000_000


def here(mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))


def for_ever() -> None:
    while True:
        time.sleep(60)


class Pausing:
    """A value that never ends being pickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        here(self.mark)
        for_ever()


class Heavy:
    """A value that never ends being unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return _weigh, (self.mark,)


def _weigh(mark: str) -> None:
    here(mark)
    for_ever()


def _regex() -> None:
    import re

    re.match(r"(a+)+$", "a" * 60 + "b")


def _pbkdf2() -> None:
    import hashlib

    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)


C_LOOPS: dict[str, Callable[[], object]] = {
    "a regular expression": _regex,
    "a sum": lambda: sum(range(10**18)),
    "a power": lambda: pow(3, 10**9),
    "a key derivation": _pbkdf2,
}
"""Each takes hours and looks at no signal; the last one does not hold the interpreter lock."""


class Victim:
    @public
    def echo(self, value: object) -> object:
        return value

    @public
    def pid(self) -> int:
        return os.getpid()

    @public
    def once(self, folder: str, number: int) -> int:
        """Fails if this number was there before: a call whose method is entered runs once."""
        (Path(folder) / str(number)).touch(exist_ok=False)
        return number

    @public
    def hang(self, mark: str) -> None:
        here(mark)
        for_ever()

    @public
    def count_for_ever(self, mark: str) -> Iterator[int]:
        here(mark)
        number = 0
        while True:
            yield number
            number += 1

    @public
    def count_to(self, count: int) -> Iterator[int]:
        yield from range(count)

    @public
    def length(self, data: bytes) -> int:
        return len(data)

    @public
    def take(self, mark: str, data: bytes) -> None:
        here(mark)
        for_ever()

    @public
    def large(self, mark: str) -> bytes:
        """The mark is made when only the answer is left to do."""
        made = b"\x07" * LARGE
        here(mark)
        return made

    @public
    def large_and_pausing(self, mark: str) -> list[object]:
        return [b"\x07" * LARGE, Pausing(mark)]

    @public
    def large_items(self, mark: str) -> Iterator[bytes]:
        while True:
            here(mark)
            yield b"\x07" * LARGE

    # Loops that nothing reaches.

    @public
    def c_loop(self, which: str, mark: str) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        here(mark)
        C_LOOPS[which]()

    @public
    def swallow(self, mark: str) -> None:
        """Waits, and catches whatever comes."""
        here(mark)
        while True:
            try:
                time.sleep(60)
            except:  # noqa: E722 - that is what is tested
                pass

    @public
    def swallow_spinning(self, mark: str) -> None:
        here(mark)
        while True:
            try:
                while True:
                    pass
            except:  # noqa: E722 - as above
                pass

    @public
    async def swallow_async(self, mark: str) -> None:
        import asyncio

        here(mark)
        while True:
            try:
                await asyncio.sleep(60)
            except:  # noqa: E722 - as above
                pass

    @public
    def finally_blocks(self, mark: str) -> Iterator[int]:
        """A stream that cannot be closed."""
        try:
            here(mark)
            while True:
                yield 1
        finally:
            for_ever()

    # Memory.

    @public
    def grow(self, megabytes: int, seconds: float) -> str:
        """Grows evenly, then returns as if nothing had been."""
        kept = []
        began = time.monotonic()
        for step in range(1, 31):
            kept.append(b"x" * (megabytes * MB // 30))
            time.sleep(max(began + seconds * step / 30 - time.monotonic(), 0))
        return f"{len(kept)} steps"

    # Ends of its own.

    @public
    def leave(self, code: int) -> None:
        os._exit(code)

    @public
    def leave_by_exception(self, kind: str) -> None:
        raise {
            "SystemExit": SystemExit(0),
            "KeyboardInterrupt": KeyboardInterrupt("no"),
            "GeneratorExit": GeneratorExit(),
        }[kind]

    @public
    def sys_exit(self, code: object) -> None:
        sys.exit(code)  # type: ignore[arg-type] - anything may stand there

    @public
    def stop_itself(self, mark: str) -> None:
        here(mark)
        os.kill(os.getpid(), signal.SIGSTOP)
        for_ever()

    @public
    def raise_signal(self, name: str) -> None:
        os.kill(os.getpid(), getattr(signal, name))
        for_ever()

    # Descriptors.

    @public
    def close(self, *numbers: int) -> str:
        for number in numbers:
            os.close(number)
        return "closed"

    @public
    def close_everything(self) -> str:
        os.closerange(3, 1024)
        return "closed"

    @public
    def shut_socket_and_hang(self) -> None:
        _own_socket().shutdown(socket.SHUT_RDWR)
        for_ever()

    @public
    def print_lines(self, count: int) -> int:
        for number in range(count):
            print("line", number)
        return count

    @public
    def print_for_ever(self, mark: str) -> None:
        here(mark)
        while True:
            print("x" * 200)

    # Forks.

    @public
    def fork_and_return(self) -> int:
        """The copy comes back from here too."""
        return os.fork()

    @public
    def fork_and_stay(self, mark: str) -> int:
        """The copy stays, in the child's process group."""
        pid = os.fork()
        if pid == 0:
            here(mark)
            for_ever()
        return pid

    @public
    def fork_and_raise(self) -> None:
        if os.fork() == 0:
            raise RuntimeError("in the copy")

    @public
    def fork_a_daemon(self, mark: str) -> None:
        """As a daemon does it: out of the group, out of the session, away from its parent."""
        if os.fork() == 0:
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            here(mark)
            for_ever()
        os.wait()

    @public
    def start_in_own_session(self) -> int:
        """A program that left the group but is still this process's child."""
        import subprocess

        return subprocess.Popen(["sleep", "300"], start_new_session=True).pid

    @public
    def fork_many(self, count: int) -> list[int]:
        pids = []
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                for_ever()
            pids.append(pid)
        return pids

    @public
    def hang_with_copies(self, mark: str) -> None:
        """Copies of copies, all of which ignore every signal that can be ignored."""
        for _ in range(2):
            os.fork()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.getpid() == os.getpgrp():
            here(mark)
        for_ever()


def _own_socket() -> socket.socket:
    """The child's end of the wire, by its descriptor: the only socket that it has."""
    for number in range(3, 64):
        try:
            duplicate = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        if duplicate.family == socket.AF_UNIX:
            return duplicate
        duplicate.close()
    raise AssertionError("no socket")
