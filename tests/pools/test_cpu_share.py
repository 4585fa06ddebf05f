"""`cpu=`: each child has a cgroup of its own where that can be, else certain processors; what cannot be is refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import kill, wait_until
from tests.pools.workers import Basic
from workfleet.errors import ConfigError
from workfleet.events import PoolCpuLimited
from workfleet.pools import cpu_share
from workfleet.pools.cpu_share import Affinity, Groups, find_groups, share_of
from workfleet.pools.link import OnFrames
from workfleet.pools.options import ChildSpec, RestartPolicy
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Child, give_up, spawn

BASIC = ChildSpec.of(Basic)
linux = pytest.mark.skipif(sys.platform != "linux", reason="others have neither affinity nor cgroups")


def machine(root: Path, *, controllers: str = "cpu memory pids", gives: str = "", mine: bool = True) -> Path:
    """A machine whose cgroup of ours is `ours`; the folder of it."""
    folder = root / "sys/fs/cgroup/ours"
    folder.mkdir(parents=True)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/ours\n")
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(gives)
    (folder / "cgroup.type").write_text("domain")
    if not mine:
        folder.joinpath("cgroup.subtree_control").unlink()
        folder.joinpath("cgroup.subtree_control").mkdir()  # writing it fails, even for root
    return folder


def groups(folder: Path, cores: float) -> Groups:
    """As the kernel would: a new group has its files, and goes with them."""

    def make(group: Path) -> None:
        group.mkdir()
        (group / "cgroup.type").write_text("domain invalid\n")

    return Groups(folder, cores, make=make, remove=shutil.rmtree)


def inside(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()]


def test_a_childs_group_has_its_quota_and_goes_with_it(tmp_path: Path) -> None:
    folder = machine(tmp_path)
    share = groups(folder, 0.5)
    share.open()
    assert (folder / "cgroup.subtree_control").read_text() == "+cpu"
    assert inside(folder) == []  # the trial left nothing
    release = share.confine(4711)
    (group,) = inside(folder)
    assert group.name == f"workfleet-{os.getpid()}-4711"
    texts = {name: (group / name).read_text() for name in ("cgroup.type", "cpu.max", "cgroup.procs")}
    assert texts == {"cgroup.type": "threaded", "cpu.max": "50000 100000", "cgroup.procs": "4711"}
    release()
    assert inside(folder) == []


def test_a_group_that_cannot_go_yet_goes_later(tmp_path: Path) -> None:
    folder = machine(tmp_path)
    busy = True

    def remove(group: Path) -> None:
        if busy:
            raise OSError(16, "Device or resource busy")
        shutil.rmtree(group)

    share = Groups(folder, 1, remove=remove)
    share.confine(1)()
    assert len(inside(folder)) == 1
    busy = False
    share.confine(2)
    assert [group.name for group in inside(folder)] == [f"workfleet-{os.getpid()}-2"]


def test_groups_that_a_killed_worker_left_are_removed_and_those_of_others_are_not(tmp_path: Path) -> None:
    folder = machine(tmp_path)
    for name in ("workfleet-999999999-1", f"workfleet-{os.getppid()}-2", "somebody"):
        (folder / name).mkdir()
    groups(folder, 1).open()
    assert {path.name for path in inside(folder)} == {f"workfleet-{os.getppid()}-2", "somebody"}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"controllers": "memory pids"}, "has no cpu controller"),
        ({"gives": "memory"}, "gives memory to its children"),
        ({"mine": False}, "is not ours to divide: Is a directory"),
    ],
)
def test_without_a_cgroup_a_part_of_a_core_is_refused_with_the_reason(
    tmp_path: Path, facts: dict[str, object], reason: str
) -> None:
    machine(tmp_path, **facts)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="pool images: cpu") as caught:
        share_of("images", 0.5, root=tmp_path, processors=[0, 1])
    assert reason in str(caught.value)
    assert "Give a whole number" in str(caught.value)
    assert share_of("images", 1, root=tmp_path, processors=[0, 1]).by == "affinity"


def test_a_machine_without_cgroups_v2(tmp_path: Path) -> None:
    assert find_groups(1, root=tmp_path) == (None, "there is no cgroup v2 here")
    with pytest.raises(ConfigError, match="this system knows no affinity"):
        share_of("images", 2, root=tmp_path, processors=[])


@linux
def test_children_are_spread_over_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[int, list[int]] = {}
    monkeypatch.setattr(os, "sched_setaffinity", given.__setitem__)
    share = Affinity(2, [0, 1, 2, 3, 4], first=3)
    release = {pid: share.confine(pid) for pid in range(5)}
    assert Counter(cpu for chosen in given.values() for cpu in chosen) == dict.fromkeys(range(5), 2)
    assert given[0] == [3, 4]
    release[1]()
    share.confine(5)
    assert sorted(given[5]) == sorted(given[1])  # the place that became free


@linux
async def test_every_child_has_its_processors_also_the_one_that_replaces_another(make_pool: MakePool) -> None:
    made = make_pool(BASIC, size=2, cpu_cores=1, restart=RestartPolicy(delay_ms=0))
    pool, all_ = made.pool, os.sched_getaffinity(0)
    assert pool.stats().cpu_by == "affinity"
    assert [(event.cores, event.by) for event in made.told(PoolCpuLimited)] == [(1, "affinity")]
    await pool.wait_ready()

    def held() -> list[set[int]]:
        return [os.sched_getaffinity(pid) for pid in pool.stats().pids]

    assert all(len(one) == 1 for one in held())
    assert len(set.union(*held())) == min(2, len(all_))
    first = pool.stats().pids[0]
    kill(first)
    await wait_until(lambda: first not in pool.stats().pids and pool.stats().ready == 2, 30)
    assert len(set.union(*held())) == min(2, len(all_))
    assert os.sched_getaffinity(0) == all_


async def test_without_a_limit_nothing_is_held(make_pool: MakePool) -> None:
    made = make_pool(BASIC)
    assert made.pool.stats().cpu_by == ""
    assert made.told(PoolCpuLimited) == []
    assert os.sched_getaffinity(await made.pool.call("pid")) == os.sched_getaffinity(0)


async def test_a_child_is_confined_before_it_is_used_and_released_when_it_is_gone(tmp_path: Path) -> None:
    folder = machine(tmp_path)
    woken: list[bool] = []
    child = await cpu_share.confined(spawn, groups(folder, 1.5), lambda: woken.append(True))("p#0", _ignore, None)
    (group,) = inside(folder)
    assert (group / "cgroup.procs").read_text() == str(child.pid)
    assert woken == [True]
    give_up(child)
    await child.ended
    await asyncio.sleep(0)
    assert inside(folder) == []


async def test_a_child_that_cannot_be_confined_is_not_used(tmp_path: Path) -> None:
    folder = machine(tmp_path)
    share = groups(folder, 1)
    started: list[Child] = []

    async def spawning(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
        started.append(await spawn(label, on_frames, on_output))
        shutil.rmtree(folder)
        return started[0]

    with pytest.raises(OSError, match="No such file"):
        await cpu_share.confined(spawning, share, lambda: None)("p#0", _ignore, None)
    assert (await started[0].ended).how == "signal SIGKILL"
    assert started[0].arguments is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        started[0].arguments.read(0, 1)


def _ignore(kind: int, call_id: int, number: int, body: object) -> None: ...
