"""When a process has ended: noticed at once, before it is reaped, so that its id still belongs to it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final

if sys.platform != "win32":
    import resource

_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


def watch(pid: int, tell: Callable[[], None]) -> Callable[[], None]:
    """Calls `tell` once our child `pid` has ended, before it is reaped. Returns what stops watching."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, or a sandbox that forbids it
        threading.Thread(target=_wait, args=(pid, loop, tell), name=f"workfleet-wait-{pid}", daemon=True).start()
        return lambda: None

    def stop() -> None:
        loop.remove_reader(fd)
        os.close(fd)

    loop.add_reader(fd, tell)
    return stop


def _wait(pid: int, loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # somebody else has reaped it, so it has ended
        pass
    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
        pass


def has_ended(pid: int) -> bool:
    """Whether our child is a zombie or was reaped by somebody else."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def reap(process: subprocess.Popen[bytes]) -> int | None:
    """Waits for the process. What it held in memory at most, in bytes; None where the system does not tell."""
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:  # somebody else has reaped it
        process.wait()
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss * _RSS_UNIT


def own_peak_bytes() -> int:
    """What this process held in memory at most. A new process inherits it as its own peak, from before its exec."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def in_words(code: int) -> str:
    """A return code of `subprocess` in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
