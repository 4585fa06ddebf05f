"""A metric file that fails for a while: what is counted waits in memory, in order, and is written once it can be."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.observe.manual_clock import ManualClock
from tests.observe.rows import ask
from workfleet.errors import StoreUnavailable
from workfleet.events import Event, MetricsUnavailable
from workfleet.observe.metrics import sqlite
from workfleet.observe.metrics.flusher import MetricsFlusher
from workfleet.observe.metrics.model import CounterPoint
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.sqlite import SqliteMetricStore


class House:
    """A registry whose flusher writes into a file."""

    def __init__(self, path: Path) -> None:
        self.store, self.registry, self.told = SqliteMetricStore(path, "shop"), MetricsRegistry(), list[Event]()
        self.clock = ManualClock(1_000)
        self.flusher = MetricsFlusher(self.registry, self.store, self.clock, self.told.append, batch_size=50)

    async def count(self, amount: float) -> bool:
        """Count, and flush. Whether it was written."""
        self.registry.counter("x", amount)
        self.clock.pass_time(1)
        return await self.flusher.flush()

    async def kept(self) -> float:
        """All that the file has."""
        return sum(
            point.increase
            for series in await self.store.query(ask())
            for point in series.points
            if isinstance(point, CounterPoint)
        )

    def reasons(self) -> list[str]:
        assert all(isinstance(event, MetricsUnavailable) for event in self.told)
        return [event.reason for event in self.told if isinstance(event, MetricsUnavailable)]


async def test_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_MS", 10)
    house = House(tmp_path / "m.db")
    assert await house.count(1)
    blocker = apsw.Connection(str(tmp_path / "m.db"))
    blocker.execute("begin immediate")
    assert not await house.count(2)
    assert not await house.count(4)
    blocker.execute("rollback")
    assert await house.count(8)
    assert await house.kept() == 15
    (reason,) = house.reasons()
    assert "locked" in reason
    blocker.close()
    await house.store.close()


async def test_a_file_that_is_locked_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_MS", 10)
    blocker = apsw.Connection(str(tmp_path / "m.db"))
    blocker.execute("begin exclusive")
    house = House(tmp_path / "m.db")
    assert not await house.count(1)
    blocker.execute("rollback")
    blocker.close()
    assert await house.count(2)
    assert await house.kept() == 3
    await house.store.close()


async def test_a_file_that_is_overwritten_and_then_deleted(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    house = House(path)
    assert await house.count(1)
    await house.store.close()
    path.write_bytes(b"no database" * 5_000)
    house = House(path)
    assert not await house.count(2)
    assert not await house.count(4)
    path.unlink()
    assert await house.count(8)
    assert await house.kept() == 14
    (reason,) = house.reasons()
    assert "not a database" in reason
    await house.store.close()


async def test_a_file_that_somebody_damages_under_us(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    house = House(path)
    for number in range(200):
        house.registry.counter("y", labels={"n": f"{number:0500}"})
    assert await house.count(1)
    checkpoint = apsw.Connection(str(path))
    checkpoint.execute("pragma wal_checkpoint(truncate)")
    checkpoint.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    assert not await house.count(2)
    with pytest.raises(StoreUnavailable):
        await house.kept()
    for each in tmp_path.iterdir():
        each.unlink()
    assert await house.count(4)
    assert await house.kept() == 6
    assert len(house.reasons()) == 1
    await house.store.close()


async def test_a_folder_that_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    house = House(folder / "m.db")
    assert await house.count(1)
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    assert await house.count(2)
    assert await house.kept() == 2
    assert house.told == []
    await house.store.close()


# Disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)):
        pytest.skip("this process may not mount a small disk")
    yield folder
    assert mount("umount", "-l", str(folder))


def mount(*command: str) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def fill(path: Path) -> None:
    """Write until there is no space."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


async def test_a_full_disk(disk: Path) -> None:
    house = House(disk / "m.db")
    assert await house.count(1)
    filler = disk / "filler"
    fill(filler)
    for number in range(300):
        house.registry.counter("y", labels={"n": f"{number:0900}"})
    assert not await house.count(2)
    assert not await house.count(4)
    filler.unlink()
    assert await house.count(8)
    assert await house.kept() == 15, "nothing is lost, and nothing twice"
    (reason,) = house.reasons()
    assert "full" in reason
    await house.store.close()


async def test_a_disk_that_becomes_read_only(disk: Path) -> None:
    house = House(disk / "m.db")
    assert await house.count(1)
    await house.store.close()
    assert mount("mount", "-o", "remount,ro", str(disk))
    house = House(disk / "m.db")
    assert not await house.count(2)
    assert mount("mount", "-o", "remount,rw", str(disk))
    assert await house.count(4)
    assert await house.kept() == 7
    (reason,) = house.reasons()
    assert "ead-only" in reason or "readonly" in reason
    await house.store.close()
