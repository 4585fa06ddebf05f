"""What the system tells of a process: memory, processor time, descendants. None or nothing where it is gone.

From `/proc` on Linux, where one reading takes some 20 µs; by psutil elsewhere.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

LINUX: Final = os.path.exists("/proc/self/statm")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK_MS: Final = 1000 / os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """Processor time in milliseconds: of the process, and with it of its children that have ended and were awaited."""

    own: float
    total: float


def resident_bytes(pid: int) -> int | None:
    """What it holds in memory, pages that it shares with others included."""
    if not LINUX:
        return _resident_elsewhere(pid)
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * _PAGE if fields else None


def fair_bytes(pid: int) -> int | None:
    """The same with shared pages divided among those that share them: dearer, it walks all its pages."""
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident_bytes(pid)


def peak_bytes(pid: int) -> int | None:
    """What it held in memory at most since its program began; for a pool's child, since its last run of a job did."""
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


def cpu(pid: int) -> Cpu | None:
    if not LINUX:
        return _cpu_elsewhere(pid)
    _, _, rest = read(f"/proc/{pid}/stat").rpartition(b")")  # a name may contain anything
    fields = rest.split()
    if not fields:
        return None
    user, system, waited_user, waited_system = (int(field) * _TICK_MS for field in fields[11:15])
    return Cpu(user + system, user + system + waited_user + waited_system)


def descendants(pid: int) -> list[int]:
    """Its children, theirs, and so on, as far as their parents live."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # another system, or a kernel without it
        return _descendants_elsewhere(pid)
    found: list[int] = []
    look = [pid]
    while look:
        of = look.pop()
        try:
            threads = os.listdir(f"/proc/{of}/task")
        except OSError:  # gone meanwhile
            continue
        for thread in threads:
            children = [int(child) for child in read(f"/proc/{of}/task/{thread}/children").split()]
            found += children
            look += children
    return found


def read(path: str) -> bytes:
    """A file of `/proc`; empty where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:  # gone, not ours, or another system
        return b""


def _resident_elsewhere(pid: int) -> int | None:
    import psutil  # not on Linux, where it would only cost time and memory

    try:
        resident: int = psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
    return resident


def _cpu_elsewhere(pid: int) -> Cpu | None:
    import psutil  # not on Linux, where it would only cost time and memory

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    own = (times.user + times.system) * 1000
    return Cpu(own, own + (times.children_user + times.children_system) * 1000)


def _descendants_elsewhere(pid: int) -> list[int]:
    import psutil  # not on Linux, where it would only cost time and memory

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []
