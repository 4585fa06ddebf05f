"""What the container grants and uses, else the machine."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.observe.manual_clock import ManualClock
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.system import SystemCollector
from workfleet.ports.metrics import SystemFacts
from workfleet.supervision.machine import CpuUse, MachineReader, read_cgroup_cpu

V2 = "0::/kubepods/pod7\n"
V1 = "4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_use_of_a_control_group_of_version_2(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": V2,
            "sys/fs/cgroup/kubepods/pod7/cpu.stat": "usage_usec 2500000\nuser_usec 1\nthrottled_usec 750000\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 99000000\n",
        },
    )
    assert read_cgroup_cpu(root) == CpuUse(2.5, 0.75)


def test_inside_a_container_the_group_is_the_root_of_the_mount(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.stat": "usage_usec 99000000\n"})
    assert read_cgroup_cpu(root) == CpuUse(99, None)


def test_the_use_of_a_control_group_of_version_1(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpuacct.usage": "4500000000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.stat": "nr_periods 3\nthrottled_time 250000000\n",
        },
    )
    assert read_cgroup_cpu(root) == CpuUse(4.5, 0.25)


def test_without_control_groups_nothing_is_known(tmp_path: Path) -> None:
    assert read_cgroup_cpu(tmp_path) is None
    assert read_cgroup_cpu(tree(tmp_path, {"proc/self/cgroup": "0::/\nnonsense\n"})) is None


def test_a_limited_container_is_measured_by_itself(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.stat": "usage_usec 3000000\n"})
    by_memory = MachineReader(memory=lambda: (1_000, 400), cpus=lambda: 8.0, all_cpus=8, root=root)
    assert by_memory.read() == SystemFacts(memory_limit_bytes=1_000, memory_used_bytes=400, cpus=8, cpu_seconds=3)
    by_cpu = MachineReader(memory=lambda: None, cpus=lambda: 0.5, all_cpus=8, root=root).read()
    assert (by_cpu.cpus, by_cpu.cpu_seconds) == (0.5, 3)
    assert by_cpu.memory_limit_bytes == psutil.virtual_memory().total


def test_without_a_limit_it_is_the_machine(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.stat": "usage_usec 3000000\n"})
    before = psutil.cpu_times()
    facts = MachineReader(memory=lambda: None, cpus=lambda: 8.0, all_cpus=8, root=root).read()
    assert facts.memory_limit_bytes == psutil.virtual_memory().total
    assert 0 < facts.memory_used_bytes < facts.memory_limit_bytes
    assert facts.cpu_seconds >= before.user + before.system > 3, "of the machine, not of the group"
    assert facts.throttled_seconds is None


def test_only_what_was_used_since_the_first_look_is_counted() -> None:
    facts = iter(
        SystemFacts(memory_limit_bytes=9, memory_used_bytes=used, cpus=2, cpu_seconds=cpu, throttled_seconds=throttled)
        for used, cpu, throttled in ((4, 1_000.0, 50.0), (5, 1_002.5, 50.5), (6, 1_003.0, None))
    )
    registry = MetricsRegistry()
    collector = SystemCollector(registry, lambda: next(facts), ManualClock(), labels={"host": "a"})
    host = (("host", "a"),)
    collector.collect()
    assert {(row.name, row.labels): row.value for row in registry.drain(0)} == {
        ("workfleet_system_memory_limit_bytes", host): 9,
        ("workfleet_system_memory_used_bytes", host): 4,
        ("workfleet_system_cpu_limit_cores", host): 2,
        ("workfleet_system_cpu_seconds_total", host): 0,
        ("workfleet_system_cpu_throttled_seconds_total", host): 0,
    }, "a restart must not count again what was used before it"
    collector.collect()
    collector.collect()
    counted = {row.name: row.value for row in registry.drain(0) if row.kind == "counter"}
    assert counted == {
        "workfleet_system_cpu_seconds_total": 3.0,
        "workfleet_system_cpu_throttled_seconds_total": 0.5,
    }
