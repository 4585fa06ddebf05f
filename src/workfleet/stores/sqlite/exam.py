"""What there is to say of a store's file: its version, how it keeps what was committed, if it is sound, the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

from workfleet.ports.exam import Finding

from .lane import Step
from .lanes import Lanes
from .schema import VERSION

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
_LEAST_FREE = 0.05
_LARGE_WAL = 256 * 1024 * 1024


class SqliteExam:
    """A `StoreExam`."""

    def __init__(self, path: Path, lanes: Lanes) -> None:
        self._path, self._lanes = path, lanes

    async def findings(self) -> list[Finding]:
        return [
            Finding("version", "ok", f"SQLite {apsw.sqlite_lib_version()}, schema {VERSION}"),
            *await self._lanes.write(_durability),
            await self._lanes.read(_soundness),
            *self._disk(),
        ]

    async def strangers(self) -> dict[str, tuple[str, ...]]:
        return {}

    async def others(self) -> list[Finding]:
        return []

    def _disk(self) -> list[Finding]:
        usage = shutil.disk_usage(self._path.parent)
        wal = self._path.with_name(f"{self._path.name}-wal")
        wal_bytes = wal.stat().st_size if wal.exists() else 0
        said = f"{_megabytes(self._path.stat().st_size)}, and {_megabytes(usage.free)} are free on its disk"
        low = usage.free < usage.total * _LEAST_FREE
        found = [
            Finding("disk", "warning" if low else "ok", said, "Make room: a full disk stops every write" if low else "")
        ]
        if wal_bytes > _LARGE_WAL:
            advice = "Some process reads for long: find it by `fuser` on the file"
            said = f"{_megabytes(wal_bytes)} wait to be moved into the file"
            found.append(Finding("write-ahead log", "warning", said, advice))
        return found


def _durability(step: Step) -> list[Finding]:
    (mode,), (number,) = step.rows("PRAGMA journal_mode"), step.rows("PRAGMA synchronous")
    level = _SYNCHRONOUS[number[0]]
    if level in ("FULL", "EXTRA"):
        return [Finding("durability", "ok", f"journal {mode[0]}, synchronous {level}: a power cut loses nothing")]
    said = f"journal {mode[0]}, synchronous {level}: a power cut may lose the last commits"
    return [Finding("durability", "warning", said)]


def _soundness(step: Step) -> Finding:
    said = [row[0] for row in step.rows("PRAGMA quick_check(3)")]
    if said == ["ok"]:
        return Finding("soundness", "ok", "quick_check finds nothing wrong")
    advice = "Stop every process, copy the file, and recover it with `sqlite3 FILE .recover`"
    return Finding("soundness", "problem", "; ".join(said), advice)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
