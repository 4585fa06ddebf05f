"""Starts child processes and sees them end. It owns SIGCHLD and every wait of this process, orphans included.

Each child leads a process group, and the whole group ends with it: what a worker has started must be gone before its
jobs run again elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from workfleet.ports.clock import Clock

_LOOK_S = 0.01


class Child:
    """A running child. `exited` becomes its exit code, negative for a signal, when the process has been waited for."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself."""
        if not self.exited.done():
            os.kill(self.pid, number)

    def kill_group(self) -> None:
        """SIGKILL for the process and what it started, as long as its pid is still its own."""
        if not self.exited.done():
            _kill_group(self.pid)

    def look(self) -> None:
        """Notice the end of the process, if it has ended."""
        if self.exited.done() or not _has_ended(self.pid):
            return
        _kill_group(self.pid)  # before the wait: until then nobody else can get this pid
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            # Popen is told, or it would complain about a process that was never waited for.
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.exited.set_result(self._process.returncode)


class Children:
    """All children of this process. There is one of these in a process, in its main thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[int, Child] = {}

    def listen(self) -> None:
        """From now on the ends of children are seen."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.look)

    def close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def start(self, command: Sequence[str], environ: Mapping[str, str], fds: Sequence[int]) -> Child:
        """Start a process in a group of its own. It inherits `fds`, standard output and error. Raises OSError."""
        process = subprocess.Popen(command, env=dict(environ), pass_fds=fds, stdin=subprocess.DEVNULL, process_group=0)
        child = self._running[process.pid] = Child(process)
        return child

    async def gone(self, child: Child, timeout_s: float) -> bool:
        """Wait until nothing is left of an ended child's group. False when the time is over first."""
        deadline = self._clock.monotonic() + timeout_s
        while _group_exists(child.pid):
            if self._clock.monotonic() > deadline:
                return False
            await self._clock.sleep(_LOOK_S)
            self.look()
        return True

    def look(self) -> None:
        """Wait for whatever has ended. One SIGCHLD can stand for many."""
        for child in list(self._running.values()):
            self._look_at(child)
        while (pid := _ended_child()) is not None:
            if pid in self._running:
                self._look_at(self._running[pid])
            else:
                os.waitpid(pid, 0)  # an orphan that became ours

    def _look_at(self, child: Child) -> None:
        child.look()
        if child.exited.done():
            self._running.pop(child.pid, None)


def _has_ended(pid: int) -> bool:
    if sys.platform == "darwin" and sys.version_info < (3, 13):
        return True  # no waitid there; the wait that follows does not block
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ended_child() -> int | None:
    """Any child that has ended, not waited for yet. Only Linux makes us the parent of orphans."""
    if sys.platform != "linux":
        return None
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is left of it (macOS says so with EPERM for a group of zombies)


def _group_exists(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
