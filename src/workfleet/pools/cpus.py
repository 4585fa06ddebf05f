"""How many processors this process may really use: affinity and the cgroup's quota, not the host's count."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable_cpus(*, root: Path = Path("/"), affinity: int | None = None) -> float:
    """Processors, perhaps a fraction: the smaller of affinity and CPU quota. `root` and `affinity` are for tests."""
    if affinity is None:
        affinity = _affinity()
    return min([float(affinity), *_quotas(root)])


def auto_size(processes: int, *, cpus: float | None = None) -> int:
    """The size of an "auto" pool in each of so many worker processes: the usable processors shared out, at least 1."""
    available = usable_cpus() if cpus is None else cpus
    return max(1, math.ceil(available) // max(processes, 1))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """The quota of our cgroup and of each above it: the smallest counts. Absent files are no limit."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            yield from _quotas_of_v2(root, group)
        elif "cpu" in controllers.split(","):
            yield from _quotas_of_v1(root, group)


def _quotas_of_v2(root: Path, group: str) -> Iterator[float]:
    for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
        for folder in _upwards(root / mount, group):
            quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
            if quota.isdecimal() and period.isdecimal() and int(period):
                yield int(quota) / int(period)


def _quotas_of_v1(root: Path, group: str) -> Iterator[float]:
    for mount in ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"):
        for folder in _upwards(root / mount, group):
            quota, period = (_read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
            if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
                yield int(quota) / int(period)


def _upwards(mount: Path, group: str) -> Iterator[Path]:
    """The folder of the group and those above it, the mount included: in a container the path may be the host's."""
    parts = [part for part in group.split("/") if part and part != ".."]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
