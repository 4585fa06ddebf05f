"""The disk indicator: how full the file systems are that hold what a worker writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .indication import Fact, Indication, Status, judged, worst

_MANY_INODES = 100_000


@dataclass(frozen=True)
class FileSystem:
    """In bytes, as `df` counts: `free` is what a process that is not root may use. `inodes` is 0 where there is no
    limit of them."""

    used: int
    free: int
    inodes: int = 0
    free_inodes: int = 0


class InThread(Protocol):
    """Runs a function in a thread, because a network file system can keep who asks it waiting for ever."""

    async def __call__(self, fn: Callable[..., Any], *args: Any) -> Any: ...


def read_file_system(folder: Path) -> tuple[int, FileSystem]:
    """Which file system holds a folder, or will once it is made, and how full it is. Raises OSError."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    used, free = (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_bavail * found.f_frsize
    return folder.stat().st_dev, FileSystem(used, free, found.f_files, found.f_favail)


class DiskIndicator:
    """The fullest of the file systems of these folders. `enough` bytes free are enough, whatever the share."""

    name = "disk"

    def __init__(
        self,
        folders: Iterable[Path],
        in_thread: InThread,
        *,
        read: Callable[[Path], tuple[int, FileSystem]] = read_file_system,
        degraded_from: float = 0.8,
        unhealthy_from: float = 0.95,
        enough: int = 10 * 2**30,
        critical: bool = False,
    ) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._in_thread, self._read = in_thread, read
        self._degraded_from, self._unhealthy_from, self._enough = degraded_from, unhealthy_from, enough
        self.critical = critical

    async def check(self) -> Indication:
        return worst(await self._in_thread(self._look), good={"folders": len(self._folders)})

    def _look(self) -> list[Indication]:
        seen: set[int] = set()
        found = []
        for folder in self._folders:
            try:
                device, system = self._read(folder)
            except OSError as error:
                found.append(Indication("unhealthy", reason=f"{folder}: {error.strerror or error}"))
                continue
            if device not in seen:
                seen.add(device)
                found.append(self._judge(folder, system))
        return found

    def _judge(self, folder: Path, system: FileSystem) -> Indication:
        share = _share(system.used, system.free)
        inodes = _share(system.inodes - system.free_inodes, system.free_inodes)
        facts: dict[str, Fact] = {"folder": str(folder), "used_share": round(share, 4), "free_bytes": system.free}
        status: Status = "healthy"
        if system.free < self._enough:
            status = judged(share, self._degraded_from, self._unhealthy_from)
        if status != "healthy":
            said = f"{share:.0%} of the disk of {folder} is used, {system.free // 2**20} MiB are free"
            return Indication(status, facts, said)
        if system.inodes and system.free_inodes < _MANY_INODES:
            status = judged(inodes, self._degraded_from, self._unhealthy_from)
        said = "" if status == "healthy" else f"{inodes:.0%} of the inodes of the disk of {folder} are used"
        return Indication(status, facts, said)


def _share(used: int, free: int) -> float:
    # A file system of nothing at all, as some of the kernel's own, is not full.
    return used / (used + free) if used + free > 0 else 0.0
