"""What follows from the processor time that a call uses, in its child and in what that started. Knows no clock.

The parent measures, so that it holds for any code. Where the system has it, RLIMIT_CPU ends a child whose parent is too
busy to look; it counts whole seconds and nothing but the child itself.
"""

from __future__ import annotations

import math
import os
import resource
from typing import Final

from workfleet.errors import CpuTimeExceeded
from workfleet.pools.member import Member
from workfleet.supervision.proc import Cpu

_STEADY: Final = 0.25
_HURRIED: Final = 0.01
_LATE: Final = 2
"""Seconds of processor time beyond the limit at which the system ends the child itself."""


class CpuTimeJudge:
    """Of one child. A call that uses more than `limit_ms` fails with `CpuTimeExceeded`, and the child is killed."""

    def __init__(self, pool: str, limit_ms: int) -> None:
        self._pool = pool
        self._limit_ms = limit_ms
        self._cores = os.cpu_count() or 1
        self._call = 0
        self._began_ms = 0.0
        self._guarded = False

    def judge(self, member: Member, cpu: Cpu) -> float:
        """Seconds until it should be looked at again while it works."""
        head = member.line.head
        if head is None or head.id != self._call:
            self._call, self._began_ms = (head.id if head is not None else 0), cpu.total
            if self._guarded:
                limit_by_system(member.child.pid, None)
                self._guarded = False
        if head is None:
            return _STEADY
        used = cpu.total - self._began_ms
        if used > self._limit_ms:
            error = CpuTimeExceeded(self._pool, head.method, round(used), self._limit_ms)
            member.kill(f"{head.method} used {used / 1000:.1f} s of processor time", error)
        elif used > self._limit_ms / 2 and not self._guarded:
            # Not before: what the call starts inherits it, and may be meant to serve many calls.
            limit_by_system(member.child.pid, cpu.own + self._limit_ms - used)
            self._guarded = True
        return min(max((self._limit_ms - used) / 1000 / self._cores, _HURRIED), _STEADY)


def limit_by_system(pid: int, cpu_ms: float | None) -> None:
    """The system ends the process some time after it has used so much in all; None: never."""
    if not hasattr(resource, "prlimit"):
        return
    try:
        _, most = resource.prlimit(pid, resource.RLIMIT_CPU)
        seconds = resource.RLIM_INFINITY if cpu_ms is None else math.ceil(cpu_ms / 1000) + _LATE
        if most != resource.RLIM_INFINITY:
            seconds = most if seconds == resource.RLIM_INFINITY else min(seconds, most)
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, most))
    except (ProcessLookupError, PermissionError):  # gone, or a sandbox that forbids it: the parent's look remains
        pass
