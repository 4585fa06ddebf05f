"""The size of an "auto" pool comes from what this process may use, not from the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.pools.cpus import auto_size, usable_cpus


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_limit_is_affinity(tmp_path: Path) -> None:
    assert usable_cpus(root=tmp_path, affinity=6) == 6


def test_cgroup_v2_quota(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}
    assert usable_cpus(root=tree(tmp_path, files), affinity=8) == 2.5


def test_cgroup_v2_the_smallest_above_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        "sys/fs/cgroup/a/cpu.max": "150000 50000\n",
        "sys/fs/cgroup/cpu.max": "400000 100000\n",
    }
    assert usable_cpus(root=tree(tmp_path, files), affinity=8) == 3


def test_cgroup_v2_with_the_path_of_the_host(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/kubepods/pod7/c1\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}
    assert usable_cpus(root=tree(tmp_path, files), affinity=8) == 1


def test_cgroup_v1_quota(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "3:cpu,cpuacct:/docker/x\n2:memory:/y\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert usable_cpus(root=tree(tmp_path, files), affinity=8) == 0.5


def test_cgroup_v1_without_quota(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "1:cpu:/\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert usable_cpus(root=tree(tmp_path, files), affinity=8) == 8


@pytest.mark.parametrize(
    ("cpus", "processes", "size"), [(8, 1, 8), (8, 3, 2), (2, 4, 1), (0.5, 1, 1), (2.5, 1, 3), (2, 1, 2)]
)
def test_auto_size(cpus: float, processes: int, size: int) -> None:
    assert auto_size(processes, cpus=cpus) == size


def test_this_machine() -> None:
    assert 0 < usable_cpus() <= 4096
