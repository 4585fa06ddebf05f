"""What the children of these tests serve. They import it by name; asyncio only where needed, to start quickly."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from workfleet import errors
from workfleet.pools import child_context
from workfleet.pools.declare import health_check, on_shutdown, on_start, process, public


class TwoArguments(Exception):
    """Pickles, but cannot be unpickled as it is: its constructor wants more than `args` holds."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class Holding(Exception):
    """Holds what cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("see my lock")
        self.lock = threading.Lock()


class Formatting(Exception):
    """Unpickles, but to another message."""

    def __init__(self, code: object) -> None:
        super().__init__(f"code {code}")


class NotFunny(Exception):
    """Survives the way."""


@process("basic", size=2)
class Basic:
    """Everything a test asks of a child."""

    def __init__(self) -> None:
        self.calls = 0
        self.left: list[str] = []

    @public
    def pid(self) -> int:
        return os.getpid()

    @public
    def echo(self, value: object) -> object:
        return value

    @public
    def size(self, data: bytes) -> tuple[str, int]:
        return type(data).__name__, len(data)

    @public
    def add(self, a: int, *, b: int = 1) -> int:
        return a + b

    @public
    async def aadd(self, a: int, b: int) -> int:
        import asyncio

        await asyncio.sleep(0)
        return a + b

    @public
    def nested_loop(self) -> int:
        import asyncio

        async def inner() -> int:
            return 7

        return asyncio.run(inner())

    @public
    def begin(self, mark: str, seconds: float = 60.0) -> str:
        """Says that it has begun by making a file, then takes its time, whatever signals say."""
        return take_time(Path(mark), seconds)

    @public
    def wait_for(self, gate: str) -> str:
        while not Path(gate).exists():
            time.sleep(0.01)
        return "done"

    @public
    def c_loop(self, mark: str) -> None:
        """Holds the interpreter lock for years."""
        Path(mark).write_text(str(os.getpid()))
        re.match(r"(a+)+$", "a" * 60 + "b")

    @public
    async def abegin(self, mark: str, *, stubborn: bool = False) -> str:
        import asyncio

        Path(mark).write_text(str(os.getpid()))
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not stubborn:
                    self.left.append("cancelled")
                    raise

    @public
    def was_left(self) -> list[str]:
        return self.left

    @public
    def die(self, how: str = "SIGKILL") -> None:
        print("famous last words", file=sys.stderr)
        print("a last line")
        os.write(1, b"and an unfinished one")
        if how == "exit":
            os._exit(3)
        if how == "segfault":
            import ctypes

            ctypes.string_at(0)
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(60)

    @public
    def sys_exit(self) -> None:
        sys.exit(3)

    @public
    def raise_funny(self) -> None:
        raise NotFunny("ha")

    @public
    def raise_two(self) -> None:
        raise TwoArguments(7, "because")

    @public
    def raise_formatting(self) -> None:
        raise Formatting(7)

    @public
    def raise_holding(self) -> None:
        raise Holding

    @public
    def decide(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        raise getattr(errors, name)(*args, **kwargs)

    @public
    def raise_local(self) -> None:
        class Local(Exception):
            pass

        raise Local("nobody knows me")

    @public
    def raise_stop(self) -> None:
        raise StopIteration(3)

    @public
    def unsendable(self) -> object:
        return threading.Lock()

    @public
    def numbers(self, upto: int, mark: str = "") -> Iterator[int]:
        try:
            for number in range(upto):
                if mark:
                    Path(mark).write_text(str(number))
                yield number
        finally:
            self.left.append("closed")

    @public
    async def anumbers(self, upto: int, mark: str = "") -> AsyncIterator[int]:
        import asyncio

        try:
            for number in range(upto):
                await asyncio.sleep(0)
                if mark:
                    Path(mark).write_text(str(number))
                yield number
        finally:
            self.left.append("aclosed")

    @public
    def broken_numbers(self) -> Iterator[int]:
        yield 1
        raise NotFunny("no two")

    @public
    def slow_numbers(self) -> Iterator[int]:
        yield 1
        time.sleep(60)
        yield 2

    @public
    def chatter(self, lines: int) -> None:
        for number in range(lines):
            print("line", number)

    @public
    def spawn(self) -> int:
        """Starts a program that outlives the call; its pid."""
        import subprocess

        return subprocess.Popen(["sleep", "300"]).pid

    @public
    def fork(self) -> int:
        """The copy comes back from here too."""
        return os.fork()

    @public
    def terminated_by(self) -> int:
        """How a program started here ends when it is asked to."""
        import subprocess

        program = subprocess.Popen(["sleep", "300"])
        program.terminate()
        return program.wait(10)

    @public
    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    @public
    def say(self, count: int) -> object:
        context = child_context.current()
        assert context is not None
        for number in range(count):
            context.log({"line": number})
        context.progress(count)
        return context.facts

    def hidden(self) -> None:
        """Not public."""


@process("hooks")
class Hooks:
    """Writes down what happens to it."""

    def __init__(self, journal: str = "") -> None:
        self.journal = Path(journal)

    def note(self, word: str) -> None:
        with self.journal.open("a") as file:
            file.write(word + "\n")

    @on_start
    def begin(self) -> None:
        self.note("start")

    @on_start
    async def abegin(self) -> None:
        self.note("astart")

    @on_shutdown
    async def end(self) -> None:
        self.note("shutdown")

    @on_shutdown
    def fail(self) -> None:
        raise NotFunny("in shutdown")

    @on_shutdown
    def last(self) -> None:
        self.note("last")

    @public
    def word(self, word: str) -> None:
        self.note(word)


def take_time(mark: Path, seconds: float) -> str:
    mark.write_text(str(os.getpid()))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            time.sleep(max(until - time.monotonic(), 0))
        except BaseException:
            pass
    return "done"


class Patient:
    """Ill as soon as its file says so."""

    def __init__(self, file: str) -> None:
        self.file = Path(file)

    @health_check
    def check(self) -> bool:
        return not self.file.exists()

    @public
    def pid(self) -> int:
        return os.getpid()


class SlowShutdown:
    @on_shutdown
    def never(self) -> None:
        time.sleep(60)

    @public
    def pid(self) -> int:
        return os.getpid()


def hooks(journal: str) -> Hooks:
    return Hooks(journal)


def patient(file: str) -> Patient:
    return Patient(file)


async def async_basic(journal: str) -> Basic:
    import asyncio

    await asyncio.sleep(0)
    return Basic()


@asynccontextmanager
async def context_hooks(journal: str) -> AsyncIterator[Hooks]:
    import asyncio

    made = Hooks(journal)
    async with asyncio.TaskGroup() as group:  # entered and left in one task
        background = group.create_task(asyncio.sleep(3600))
        yield made
        background.cancel()
    made.note("context left")


def cannot() -> None:
    raise NotFunny("no database")


def crash_until(counter: str, times: int) -> Basic:
    """Dies while being built, so many times."""
    path = Path(counter)
    tried = len(path.read_text()) if path.exists() else 0
    path.write_text("x" * (tried + 1))
    if tried < times:
        os._exit(9)
    return Basic()


def slow_to_build() -> None:
    time.sleep(60)
