"""Whether the supervisor that a status document names is gone, as far as it can be seen from here.

Standard library only, and little of it: `workfleet probe` imports this and must start fast. What tells one process from
another is `supervision/identity.py`'s to say, and this agrees with it; a test holds both to that.
"""

from __future__ import annotations

import os

_START_TIME_AFTER_COMMAND = 19
"""Field 22 of /proc/<pid>/stat, counted from the state, which follows the command."""


def boot() -> str:
    """The id of this boot, "" where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def why_gone(status: dict[str, object], here: str) -> str:
    """Why nobody can be expected to write this document again; "" where its supervisor runs, or where that cannot be
    seen: it is of another machine or container, or this is no Linux. `here` is the own boot's id."""
    facts = status.get("supervisor")
    if not (here and isinstance(facts, dict) and status.get("host") == os.uname().nodename):
        return ""
    pid, started = facts.get("pid"), facts.get("started")
    try:
        # Containers that share a host's name and kernel do not share pids.
        if facts.get("boot_id") != f"{here}/{os.stat('/proc/self/ns/pid').st_ino}" or not isinstance(pid, int):
            return ""
        state, there = _state_and_start(pid)
    except (FileNotFoundError, ProcessLookupError):
        return _GONE.format(pid=pid) if isinstance(pid, int) and not _hidden(pid) else ""
    except (OSError, ValueError, IndexError):
        return ""
    return "" if there == started and state not in "ZXx" else _GONE.format(pid=pid)


_GONE = "the supervisor (process {pid}) is gone without a word"


def _state_and_start(pid: int) -> tuple[str, str]:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        # The command is in parentheses and may hold anything, parentheses and spaces too.
        fields = file.read().rpartition(")")[2].split()
    return fields[0], fields[_START_TIME_AFTER_COMMAND]


def _hidden(pid: int) -> bool:
    """Whether a process exists all the same: another user's, where /proc is mounted to hide those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False
