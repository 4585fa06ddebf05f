"""A worker that uses much: memory, processor time, other processes. The children of the tests of limits serve it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from tests.pools.workers import take_time
from workfleet.pools.declare import public


class User:
    """Takes what it is told to, and keeps it."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    @public
    def pid(self) -> int:
        return os.getpid()

    @public
    def echo(self, value: object) -> object:
        return value

    @public
    def begin(self, mark: str, seconds: float = 60.0) -> str:
        return take_time(Path(mark), seconds)

    @public
    def hog(self, megabytes: int, seconds: float = 60.0) -> int:
        kept = bytearray(megabytes * 1_000_000)
        kept[::4096] = b"x" * len(kept[::4096])
        time.sleep(seconds)
        return len(kept)

    @public
    def grow(self, megabytes: int, seconds: float) -> int:
        """Grows evenly to so much in so many seconds, and keeps it for good."""
        began = time.monotonic()
        for number in range(1, megabytes + 1):
            self.kept.append(b"x" * 1_000_000)
            time.sleep(max(began + seconds * number / megabytes - time.monotonic(), 0))
        return len(self.kept)

    @public
    def grow_when_idle(self, megabytes: int) -> None:
        threading.Timer(0.2, lambda: self.kept.append(b"x" * megabytes * 1_000_000)).start()

    @public
    def grow_below(self, megabytes: int, *, copies: int = 0) -> list[int]:
        """A program that holds so much, or forked copies of what this child holds; then waits for a long time."""
        import subprocess

        if copies:
            self.kept.append(b"x" * megabytes * 1_000_000)
            for _ in range(copies):
                if os.fork() == 0:
                    time.sleep(300)
                    os._exit(0)
            time.sleep(1)
            return []
        program = f"import time; kept = b'x' * {megabytes * 1_000_000}; time.sleep(300)"
        subprocess.run([sys.executable, "-S", "-c", program], check=True)
        return []

    @public
    def allocate(self, megabytes: int) -> int:
        return len(bytearray(megabytes * 1_000_000))

    @public
    def burn(self, seconds: float, *, below: bool = False) -> str:
        """Uses so many seconds of processor time, whatever is raised meanwhile."""
        if below:
            import subprocess

            program = f"import time\nwhile time.process_time() < {seconds}: pass"
            subprocess.run([sys.executable, "-S", "-c", program], check=True)
            return "done"
        until = time.process_time() + seconds
        while time.process_time() < until:
            try:
                sum(range(1_000))
            except BaseException:
                pass
        return "done"

    @public
    def burn_in_threads(self, seconds: float, threads: int) -> str:
        """Outside of the interpreter lock."""
        import hashlib

        def work() -> None:
            until = time.thread_time() + seconds
            data = bytes(1_000_000)
            while time.thread_time() < until:
                hashlib.sha256(data).digest()

        running = [threading.Thread(target=work) for _ in range(threads)]
        for each in running:
            each.start()
        for each in running:
            each.join()
        return "done"

    @public
    def cpu_limit(self) -> int:
        import resource

        return resource.getrlimit(resource.RLIMIT_CPU)[0]

    @public
    def hog_and_die(self, size: int) -> None:
        kept = bytearray(b"x") * size
        os.kill(os.getpid(), signal.SIGKILL)
        del kept

    @public
    def leave_behind(self, how: str, folder: str) -> list[int]:
        """Starts processes that leave the child behind; the pids of those that stay."""
        return escape(how, Path(folder))

    @public
    def leave_behind_and_begin(self, how: str, folder: str, mark: str) -> str:
        escape(how, Path(folder))
        return take_time(Path(mark), 60)

    @public
    def leave_behind_and_die(self, how: str, folder: str) -> None:
        escape(how, Path(folder))
        os.kill(os.getpid(), signal.SIGKILL)

    @public
    def chatter_and_die(self, lines: int) -> None:
        for number in range(lines):
            print("line", number, file=sys.stderr)
        print("famous last words", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)


def heavy(megabytes: int) -> User:
    """Holds so much from its start."""
    made = User()
    made.kept.append(b"x" * megabytes * 1_000_000)
    return made


def escape(how: str, folder: Path) -> list[int]:
    """Each process that stays behind writes a file named by its pid; waits until they have."""
    before = len(list(folder.iterdir()))
    if how == "program in a session":
        import subprocess

        program = "import os, sys, time; open(os.path.join(sys.argv[1], str(os.getpid())), 'w'); time.sleep(300)"
        subprocess.Popen([sys.executable, "-S", "-c", program, str(folder)], start_new_session=True)
    elif os.fork() == 0:
        if how in ("session", "daemon"):
            os.setsid()
        if how in ("daemon", "double fork") and os.fork() > 0:
            os._exit(0)  # an orphan stays
        (folder / str(os.getpid())).touch()
        time.sleep(300)
        os._exit(0)
    elif how in ("daemon", "double fork"):
        os.wait()
    while len(list(folder.iterdir())) == before:
        time.sleep(0.005)
    return [int(file.name) for file in folder.iterdir()]
