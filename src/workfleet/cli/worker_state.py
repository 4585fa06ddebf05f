"""Whether the workers that the store knows still work, as far as it can be told from here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..model.fleet import WorkerRecord
from ..supervision.identity import is_alive
from .output import rough

_SILENT_MS = 100_000
"""A worker beats every 30 s: three beats were missed."""


@dataclass(frozen=True)
class WorkerLife:
    """A worker's record, and `gone`: its process does not run on this machine any more; `silent`: nothing was heard of
    it for three beats; else `on`, or what it was told."""

    record: WorkerRecord
    state: str

    @property
    def works(self) -> bool:
        return self.state not in ("gone", "silent")

    def __str__(self) -> str:
        return self.record.id if self.state == "on" else f"{self.record.id} ({self.state})"


def lives_of(workers: Iterable[WorkerRecord], now_ms: int) -> list[WorkerLife]:
    """What can be told of these workers at this instant of the store's clock."""
    return [WorkerLife(worker, _state(worker, now_ms)) for worker in workers]


def seen(life: WorkerLife, now_ms: int) -> str:
    """When something was last heard of it."""
    return f"{rough(max(now_ms - life.record.seen_ms, 0))} ago"


def _state(worker: WorkerRecord, now_ms: int) -> str:
    if not is_alive(worker.identity):
        return "gone"
    if now_ms - worker.seen_ms > _SILENT_MS:
        return "silent"
    return worker.instruction or "on"
