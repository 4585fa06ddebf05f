"""What tells one process from another, and whether a process that was described so still runs.

A pid alone is used again, so a process is known by its pid with the kernel's start time, on one boot of one machine.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from ..model.fleet import ProcessIdentity

_STATE_AND_LATER = 2
"""Fields of /proc/<pid>/stat that precede the state: pid and command."""
_START_TIME = 22
_DEAD_STATES = ("Z", "X", "x")


def identity_of(pid: int) -> ProcessIdentity | None:
    """The identity of a process of this machine; None when there is none, or only its unreaped remains."""
    started = _started(pid)
    return None if started is None else ProcessIdentity(socket.gethostname(), boot_id(), pid, started)


def own_identity() -> ProcessIdentity:
    """The identity of this process."""
    identity = identity_of(os.getpid())
    if identity is None:
        raise RuntimeError("the operating system does not tell this process's start time")
    return identity


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether the process still runs. Another machine's, boot's or container's cannot be seen: it counts as alive."""
    if (identity.host, identity.boot_id) != (socket.gethostname(), boot_id()):
        return True
    started = _started(identity.pid)
    return _hidden(identity.pid) if started is None else started == identity.started


def boot_id() -> str:
    """The boot, and the pid namespace: containers that share a host's name and kernel do not share pids."""
    if sys.platform != "linux":
        import psutil

        return str(int(psutil.boot_time()))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def _hidden(pid: int) -> bool:
    """Whether a process without facts exists all the same: another user's, where /proc is mounted to hide those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        pass
    return False


def _started(pid: int) -> str | None:
    if sys.platform != "linux":
        return _started_elsewhere(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command is in parentheses and may hold anything, parentheses and spaces too.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in _DEAD_STATES else fields[_START_TIME - 1 - _STATE_AND_LATER]


def _started_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.NoSuchProcess:
        return None
