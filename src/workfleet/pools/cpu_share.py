"""How many cores each child of a pool may use: by a cgroup of its own where we may make some, else by affinity.

A child's cgroup is a *threaded* one below ours (Linux, cgroups v2, "Threads"): so this process may stay where it is,
which a delegated subtree otherwise forbids. It holds the child and whatever that starts, and goes with it; those that a
killed worker left behind are removed by the next one. Affinity gives a child certain processors, so whole numbers only.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol

from workfleet.errors import ConfigError, Problem
from workfleet.pools.link import OnFrames
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Child, Spawn, give_up

Means = Literal["cgroup", "affinity", ""]

_PERIOD_US: Final = 100_000
_LEAST_QUOTA_US: Final = 1_000
_PREFIX: Final = "workfleet-"
_THREADED_CONTROLLERS: Final = frozenset({"cpu", "cpuset", "perf_event", "pids"})


class Share(Protocol):
    """Confines children. `by` is what does it."""

    by: Means

    def confine(self, pid: int) -> Callable[[], None]:
        """Before it runs user code. Returns what to call when it is gone. Raises `OSError`."""
        ...


def share_of(pool: str, cores: float, *, root: Path = Path("/"), processors: Iterable[int] | None = None) -> Share:
    """Raises `ConfigError` with the reason where this machine cannot give a child so many cores. `root` and
    `processors` are for tests."""
    groups, reason = find_groups(cores, root=root)
    if groups is not None:
        return groups
    given = usable_processors() if processors is None else sorted(processors)
    if not given:
        raise _refused(pool, cores, f"{reason}, and this system knows no affinity")
    if cores != int(cores):
        raise _refused(pool, cores, f"a part of a core needs a cgroup: {reason}. Give a whole number, or none")
    return Affinity(int(cores), given, first=os.getpid())


def _refused(pool: str, cores: float, reason: str) -> ConfigError:
    return ConfigError(Problem(f"pool {pool}: cpu", reason, f"{cores:g}"))


def usable_processors() -> list[int]:
    """By number; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def confined(spawn: Spawn, share: Share | None, spawned: Callable[[], None]) -> Spawn:
    """Starts children like `spawn`, within their share, and tells of each."""

    async def start(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
        child = await spawn(label, on_frames, on_output)
        if share is not None:
            try:
                release = share.confine(child.pid)
            except ProcessLookupError:  # it is gone already, and its end says why
                pass
            except OSError:
                give_up(child)
                raise
            else:
                child.ended.add_done_callback(lambda ended: release())
        spawned()
        return child

    return start


class Affinity:
    """Each child gets those of the processors that the fewest others have."""

    by: Means = "affinity"

    def __init__(self, cores: int, processors: list[int], *, first: int = 0) -> None:
        """`first` differs between processes, so that they do not all begin with the same one."""
        turn = first % len(processors)
        self._order = processors[turn:] + processors[:turn]
        self._cores = min(cores, len(processors))
        self._used: Counter[int] = Counter()

    def confine(self, pid: int) -> Callable[[], None]:
        chosen = sorted(self._order, key=lambda processor: self._used[processor])[: self._cores]
        os.sched_setaffinity(pid, chosen)
        self._used.update(chosen)

        def release() -> None:
            self._used.subtract(chosen)

        return release


def find_groups(cores: float, *, root: Path) -> tuple[Groups | None, str]:
    """Where our cgroup lets us make others below it; else the reason why not. Tries it out."""
    folder = _own_group(root)
    if folder is None:
        return None, "there is no cgroup v2 here"
    if "cpu" not in _read(folder / "cgroup.controllers").split():
        return None, f"{folder} has no cpu controller"
    others = set(_read(folder / "cgroup.subtree_control").split()) - _THREADED_CONTROLLERS
    if others and (folder / "cgroup.type").exists():
        return None, f"{folder} gives {', '.join(sorted(others))} to its children, which rules out groups of ours"
    groups = Groups(folder, cores)
    try:
        groups.open()
    except OSError as error:
        return None, f"{folder} is not ours to divide: {error.strerror or error}"
    return groups, ""


def _own_group(root: Path) -> Path | None:
    for line in _read(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            path = line[3:].strip("/")
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                folder = root / mount / path
                if ".." not in path.split("/") and (folder / "cgroup.controllers").exists():
                    return folder
    return None


class Groups:
    """One cgroup a child, with its `cpu.max`."""

    by: Means = "cgroup"

    def __init__(
        self,
        folder: Path,
        cores: float,
        *,
        make: Callable[[Path], None] = os.mkdir,
        remove: Callable[[Path], None] = os.rmdir,
    ) -> None:
        self._folder = folder
        self._quota = max(round(cores * _PERIOD_US), _LEAST_QUOTA_US)
        self._make, self._remove = make, remove
        self._stayed: set[Path] = set()

    def open(self) -> None:
        """Gives the cpu controller to groups below ours and makes one to see that we can. Raises `OSError`."""
        control = self._folder / "cgroup.subtree_control"
        if "cpu" not in _read(control).split():
            _write(control, "+cpu")
        self._remove_left_behind()
        self._remove(self._new("trial"))

    def _new(self, name: str) -> Path:
        group = self._folder / f"{_PREFIX}{os.getpid()}-{name}"
        self._make(group)
        try:
            # Below the root of all groups there is no need, elsewhere a group with our processes in it has no others.
            if (self._folder / "cgroup.type").exists() and _read(group / "cgroup.type").strip() != "threaded":
                _write(group / "cgroup.type", "threaded")
            _write(group / "cpu.max", f"{self._quota} {_PERIOD_US}")
        except OSError:
            self._remove(group)
            raise
        return group

    def confine(self, pid: int) -> Callable[[], None]:
        self._remove_again()
        group = self._new(str(pid))
        try:
            _write(group / "cgroup.procs", str(pid))
        except OSError:
            self._remove(group)
            raise

        def release() -> None:
            self._stayed.add(group)
            self._remove_again()

        return release

    def _remove_again(self) -> None:
        """What still had a process in it when it should have gone."""
        for group in list(self._stayed):
            with suppress(OSError):
                self._remove(group)
            if not group.exists():
                self._stayed.discard(group)

    def _remove_left_behind(self) -> None:
        """By workers that were killed. One that is in use cannot be removed."""
        for group in self._folder.glob(f"{_PREFIX}*-*"):
            owner = group.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
                with suppress(OSError):
                    self._remove(group)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
