"""The memory that the kernel grants this process's control group, version 2 and 1.

After the kernel's `admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`. A limit may stand at any level up to the
root, and inside a container the own group is seen as the root of the mount.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What version 1 says for "no limit" is the largest multiple of a page below 2^63.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class CgroupMemory:
    """In bytes. `used` is the working set: what the kernel cannot simply drop."""

    limit: int
    used: int


def read_cgroup_memory(root: Path = Path("/")) -> CgroupMemory | None:
    """The limit that is nearest to being reached, or None where there is none (or no control groups at all)."""
    found = [memory for level in _levels(root) if (memory := level) is not None]
    return max(found, key=lambda memory: memory.used / memory.limit, default=None)


def _levels(root: Path) -> Iterator[CgroupMemory | None]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield from (_version_2(folder) for folder in _upwards(root / "sys/fs/cgroup", path))
        elif "memory" in controllers.split(","):
            yield from (_version_1(folder) for folder in _upwards(root / "sys/fs/cgroup/memory", path))


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:depth])


def _version_2(folder: Path) -> CgroupMemory | None:
    return _memory(folder, "memory.max", "memory.current", "inactive_file")


def _version_1(folder: Path) -> CgroupMemory | None:
    return _memory(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _memory(folder: Path, limit_name: str, used_name: str, droppable: str) -> CgroupMemory | None:
    limit, used = _number(folder / limit_name), _number(folder / used_name)
    if limit is None or used is None or not 0 < limit < _NO_LIMIT:
        return None
    stat = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    return CgroupMemory(limit, max(used - int(stat.get(droppable, "0")), 0))


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # not there, or not for us: no limit that we could know
