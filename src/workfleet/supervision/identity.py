"""What tells one process from another, and whether a process that was described so still runs.

A pid alone is used again, so a process is known by its pid with the kernel's start time, on one boot of one machine.
"""

from __future__ import annotations

import os
import socket
import sys

from ..model.fleet import ProcessIdentity
from .seen import boot, hidden, started, with_namespace


def identity_of(pid: int) -> ProcessIdentity | None:
    """The identity of a process of this machine; None when there is none, or only its unreaped remains."""
    there = _started(pid)
    return None if there is None else ProcessIdentity(socket.gethostname(), boot_id(), pid, there)


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
    there = _started(identity.pid)
    return hidden(identity.pid) if there is None else there == identity.started


def boot_id() -> str:
    """The boot, and the pid namespace: containers that share a host's name and kernel do not share pids."""
    if sys.platform != "linux":
        import psutil

        return str(int(psutil.boot_time()))
    return with_namespace(boot())


def _started(pid: int) -> str | None:
    return started(pid) if sys.platform == "linux" else _started_elsewhere(pid)


def _started_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.NoSuchProcess:
        return None
