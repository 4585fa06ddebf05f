"""What the container grants this process and uses, else the machine: memory and processor.

The processor's use is the control group's, after the kernel's `admin-guide/cgroup-v2.rst` (`cpu.stat`) and, for version
1, `cgroup-v1/cpuacct.rst`. The limits are found by readers that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from workfleet.ports.metrics import SystemFacts

Limits = tuple[int, int]
"""Bytes: what the control group may use, and what it uses."""


@dataclass(frozen=True)
class CpuUse:
    """In seconds. `throttled` is None where nothing is ever throttled."""

    used: float
    throttled: float | None


class MachineReader:
    """A `SystemReader`. `memory` finds a control group's limit (None: there is none), `cpus` the processors that may be
    used, and `all_cpus` those that there are."""

    def __init__(
        self,
        *,
        memory: Callable[[], Limits | None],
        cpus: Callable[[], float],
        all_cpus: int | None,
        root: Path = Path("/"),
    ) -> None:
        self._memory, self._cpus, self._all_cpus, self._root = memory, cpus, all_cpus, root

    def read(self) -> SystemFacts:
        group, cpus = self._memory(), self._cpus()
        limited = group is not None or (self._all_cpus is not None and cpus < self._all_cpus)
        use = read_cgroup_cpu(self._root) if limited else None
        if group is None:
            machine = psutil.virtual_memory()
            group = int(machine.total), int(machine.total - machine.available)
        if use is None:
            times = psutil.cpu_times()
            idle = times.idle + getattr(times, "iowait", 0.0)
            # Guests are in the users' time already.
            guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
            use = CpuUse(sum(times) - guests - idle, None)
        return SystemFacts(
            memory_limit_bytes=group[0],
            memory_used_bytes=group[1],
            cpus=cpus,
            cpu_seconds=use.used,
            throttled_seconds=use.throttled,
        )


def read_cgroup_cpu(root: Path = Path("/")) -> CpuUse | None:
    """What the innermost control group that tells it has used; None where none does."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            found = next(_version_2(root / "sys/fs/cgroup", group), None)
        elif "cpuacct" in controllers.split(","):
            mounts = (root / "sys/fs/cgroup" / name for name in ("cpu,cpuacct", "cpuacct"))
            found = next((use for mount in mounts for use in _version_1(mount, group)), None)
        else:
            continue
        if found is not None:
            return found
    return None


def _version_2(mount: Path, group: str) -> Iterator[CpuUse]:
    for folder in _upwards(mount, group):
        stat = _numbers(folder / "cpu.stat")
        if "usage_usec" in stat:
            throttled = stat.get("throttled_usec")
            yield CpuUse(stat["usage_usec"] / 1e6, None if throttled is None else throttled / 1e6)


def _version_1(mount: Path, group: str) -> Iterator[CpuUse]:
    for folder in _upwards(mount, group):
        used = _text(folder / "cpuacct.usage").strip()
        if used.isdecimal():
            throttled = _numbers(folder / "cpu.stat").get("throttled_time")
            yield CpuUse(int(used) / 1e9, None if throttled is None else throttled / 1e9)


def _upwards(mount: Path, group: str) -> Iterator[Path]:
    """The folder of the group and those above it: in a container the path may be the machine's."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _numbers(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # not there, or not for us
