"""The disk indicator: what counts as full, which folders, and a file system that really is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workfleet.health.disk import DiskIndicator, FileSystem, read_file_system

GIB = 2**30


async def at_once(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


def indicator(systems: dict[str, tuple[int, FileSystem]], **options: Any) -> DiskIndicator:
    return DiskIndicator([Path(each) for each in systems], at_once, read=lambda folder: systems[str(folder)], **options)


@pytest.mark.parametrize(
    ("system", "status"),
    [
        (FileSystem(79 * GIB // 10, 21 * GIB // 10), "healthy"),
        (FileSystem(8 * GIB, 2 * GIB), "degraded"),
        (FileSystem(95 * GIB // 10, 5 * GIB // 10), "unhealthy"),
        (FileSystem(990 * GIB, 10 * GIB), "healthy"),
        (FileSystem(990 * GIB, 10 * GIB - 1), "unhealthy"),
        (FileSystem(0, 0), "healthy"),
        (FileSystem(0, GIB, inodes=1_000, free_inodes=201), "healthy"),
        (FileSystem(0, GIB, inodes=1_000, free_inodes=200), "degraded"),
        (FileSystem(0, GIB, inodes=1_000, free_inodes=0), "unhealthy"),
        (FileSystem(0, GIB, inodes=10_000_000, free_inodes=100_000), "healthy"),
    ],
)
async def test_how_full_is_too_full(system: FileSystem, status: str) -> None:
    said = await indicator({"/data": (1, system)}).check()
    assert (said.status, "/data" in said.reason) == (status, status != "healthy")


async def test_thresholds_are_options() -> None:
    half = {"/data": (1, FileSystem(5 * GIB, 5 * GIB))}
    assert (await indicator(half, degraded_from=0.5).check()).status == "degraded"
    assert (await indicator(half, degraded_from=0.4, unhealthy_from=0.5).check()).status == "unhealthy"
    said = await indicator(half, degraded_from=0.4, unhealthy_from=0.5, enough=5 * GIB).check()
    assert (said.status, said.facts["free_bytes"], said.facts["used_share"]) == ("healthy", 5 * GIB, 0.5)


async def test_the_fullest_is_named_and_each_disk_is_told_once() -> None:
    half, full = FileSystem(85 * GIB // 10, 15 * GIB // 10), FileSystem(GIB, 0)
    said = await indicator({"/store": (1, half), "/status": (1, half), "/metrics": (2, full)}).check()
    assert said.status == "unhealthy"
    assert said.reason == (
        "100% of the disk of /metrics is used, 0 MiB are free; 85% of the disk of /store is used, 1536 MiB are free"
    )


async def test_a_folder_that_cannot_be_read_is_named() -> None:
    def gone(folder: Path) -> tuple[int, FileSystem]:
        raise OSError(5, "Input/output error")

    said = await DiskIndicator([Path("/data")], at_once, read=gone).check()
    assert (said.status, said.reason) == ("unhealthy", "/data: Input/output error")


def test_a_folder_that_is_not_made_yet_counts_as_the_one_above(tmp_path: Path) -> None:
    device, system = read_file_system(tmp_path / "not" / "yet")
    assert device == os.stat(tmp_path).st_dev
    assert system.free > 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can only be mounted by root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_file_system_that_fills_up(small: Path, tmp_path: Path) -> None:
    disk = DiskIndicator([small], at_once)
    assert (await disk.check()).status == "healthy"
    (small / "some").write_bytes(bytes(900_000))
    assert (await disk.check()).status == "degraded"
    with pytest.raises(OSError, match="No space left"):
        (small / "rest").write_bytes(bytes(900_000))
    said = await disk.check()
    assert (said.status, said.reason) == ("unhealthy", f"100% of the disk of {small} is used, 0 MiB are free")
    (small / "rest").unlink()
    (small / "some").unlink()
    assert (await disk.check()).status == "healthy"
