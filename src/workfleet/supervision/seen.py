"""What Linux tells of a process: when it started, or whether it is hidden. Standard library only, and little of it,
because `workfleet probe` imports this and must start fast."""

from __future__ import annotations

import os

_STATE_AND_LATER = 2
"""Fields of /proc/<pid>/stat that precede the state: pid and command."""
_START_TIME = 22
_DEAD_STATES = ("Z", "X", "x")


def boot() -> str:
    """The id of this boot, "" where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def with_namespace(boot: str) -> str:
    """The boot, and the pid namespace: containers that share a host's name and kernel do not share pids."""
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def started(pid: int) -> str | None:
    """When a process started, as the kernel counts; None where it has ended, or its facts are hidden."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command is in parentheses and may hold anything, parentheses and spaces too.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in _DEAD_STATES else fields[_START_TIME - 1 - _STATE_AND_LATER]


def hidden(pid: int) -> bool:
    """Whether a process without facts exists all the same: another user's, where /proc is mounted to hide those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False
