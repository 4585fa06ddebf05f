"""What one child uses, with everything that it started: memory and processor time."""

from __future__ import annotations

from typing import Final, Protocol

from workfleet.supervision import proc
from workfleet.supervision.proc import Cpu

_DESCENDANTS_EVERY: Final = 0.25
"""Seconds; looking for descendants costs more than measuring those that are known."""


class Meter(Protocol):
    """Measures one child. `now` in seconds, of any clock; None when the child is gone."""

    def memory_bytes(self, now: float) -> int | None:
        """Pages that it shares with its descendants are counted once for each."""
        ...

    def fair_memory_bytes(self) -> int:
        """With shared pages counted once: exact and dear."""
        ...

    def cpu(self, now: float) -> Cpu | None:
        """`total` is with all descendants."""
        ...


class ProcessMeter:
    """Of a process and its descendants, as far as their parents live."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: list[int] = []
        self._looked = -_DESCENDANTS_EVERY

    def memory_bytes(self, now: float) -> int | None:
        own = proc.resident_bytes(self._pid)
        if own is None:
            return None
        return own + sum(proc.resident_bytes(pid) or 0 for pid in self._below(now))

    def fair_memory_bytes(self) -> int:
        if not self._known:
            return proc.resident_bytes(self._pid) or 0
        return sum(proc.fair_bytes(pid) or 0 for pid in (self._pid, *self._known))

    def cpu(self, now: float) -> Cpu | None:
        own = proc.cpu(self._pid)
        if own is None:
            return None
        theirs = [cpu.total for cpu in map(proc.cpu, self._below(now)) if cpu is not None]
        return Cpu(own.own, own.total + sum(theirs))

    def _below(self, now: float) -> list[int]:
        if now - self._looked >= _DESCENDANTS_EVERY:
            self._known, self._looked = proc.descendants(self._pid), now
        return self._known
