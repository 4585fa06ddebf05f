"""Where `workfleet probe` looks for the status file, and which of several it believes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import workfleet.app.status
from tests.health.probed import NOW_MONO_MS, Ask, status, write
from workfleet.app.status import (
    Status,
    StatusFile,
    SupervisorFacts,
    default_status_file,
    fallback_status_files,
    write_status,
)
from workfleet.cli import probe


def test_the_place_is_the_supervisors(place: Path, ask: Ask) -> None:
    path = write(place, status(), app="my shop/ü")
    assert path.name == "my_shop__.status.json"
    assert ask("live") == (0, "live: ok")
    assert ask("live", "--app", "my shop/ü") == (0, "live: ok")
    assert ask("live", "--app", "other")[0] == 1


def test_no_file(place: Path, ask: Ask) -> None:
    hint = "is the fleet running? (--status-file and WORKER_STATUS_FILE name another place)"
    folder = place / ".workfleet"
    assert ask("ready") == (1, f"ready: there is no status file {folder}/<app>.status.json: {hint}")
    assert ask("live", "--app=shop") == (1, f"live: there is no status file {folder}/shop.status.json: {hint}")
    folder.rmdir()
    assert ask("ready")[0] == 1


def test_the_file_can_be_named(place: Path, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, status())
    elsewhere = tmp_path / "elsewhere.json"
    monkeypatch.setenv("WORKER_STATUS_FILE", str(elsewhere))
    assert ask("live")[0] == 1
    write_status(elsewhere, status())
    assert ask("live") == (0, "live: ok")
    assert ask("live", "--status-file", str(tmp_path / "no.json"))[0] == 1
    monkeypatch.setenv("WORKER_STATUS_FILE", str(tmp_path / "no.json"))
    assert ask("live", f"--status-file={elsewhere}") == (0, "live: ok")


def test_without_a_project_it_is_the_current_folder(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    monkeypatch.chdir(bare)
    write(bare, status())
    assert ask("live") == (0, "live: ok")


def test_several_apps_must_be_told_apart(place: Path, ask: Ask) -> None:
    write(place, status(), app="shop")
    write(place, status(state="stopped", reason="x"), app="blog")
    folder = place / ".workfleet"
    assert ask("live") == (
        2,
        f"workfleet probe: several apps have a status file in {folder}: blog, shop. Say which with --app",
    )
    assert ask("live", "--app", "shop")[0] == 0
    assert ask("live", "--app", "blog")[0] == 1


def test_the_fallback_of_a_read_only_project(place: Path, ask: Ask) -> None:
    path = default_status_file(place, "shop")
    (place / ".workfleet").rmdir()
    (place / ".workfleet").touch()  # cannot become a folder, not even for root
    file = StatusFile(path)
    assert "is used meanwhile" in (file.write(status()) or "")
    assert fallback_status_files(path)[0].exists()
    assert ask("live") == (0, "live: ok")
    assert ask("live", "--app", "shop") == (0, "live: ok")
    assert ask("live", "--status-file", str(path)) == (0, "live: ok")
    other = place.parent / "other"
    (other / ".git").mkdir(parents=True)
    (other / ".workfleet").touch()
    StatusFile(default_status_file(other, "blog")).write(status(state="stopped"))
    assert ask("live") == (0, "live: ok"), "another project of the same user is not ours"
    os.chdir(other)
    assert ask("live")[0] == 1


def test_the_fallback_of_a_full_disk(place: Path, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the temporary folder is on it, too."""
    memory = tmp_path / "memory"
    memory.mkdir()
    for module in (probe, workfleet.app.status):
        monkeypatch.setattr(module, "MEMORY_FOLDER", str(memory))
    (tmp_path / "tmp").touch()
    (place / ".workfleet").rmdir()
    (place / ".workfleet").touch()
    path = default_status_file(place, "shop")
    assert f"{memory}/workfleet-{os.getuid()}/" in (StatusFile(path).write(status()) or "")
    assert ask("live") == (0, "live: ok")
    assert ask("live", "--app", "shop") == (0, "live: ok")
    assert ask("live", "--status-file", str(path)) == (0, "live: ok")


def test_both_look_in_the_same_places(place: Path) -> None:
    assert probe.MEMORY_FOLDER == workfleet.app.status.MEMORY_FOLDER
    assert probe.MEMORY_FOLDER == "/dev/shm"


@pytest.mark.parametrize(("first", "second", "code"), [(5, 6, 1), (6, 5, 0)])
@pytest.mark.parametrize("clock_set_back_ms", [0, 3_600_000])
def test_the_later_of_both_places_counts(
    place: Path, ask: Ask, first: int, second: int, code: int, clock_set_back_ms: int
) -> None:
    def written(at: int, **changes: Any) -> Status:
        # Since both were written the wall clock was set back, or not: it says nothing.
        wall = 2_000_000_000_000 + at * 1000 - clock_set_back_ms * (at == 6)
        return status(written_mono_ms=NOW_MONO_MS - 10_000 + at * 1000, written_ms=wall, **changes)

    path = write(place, written(first))
    fallback = fallback_status_files(path)[0]
    fallback.parent.mkdir(parents=True)
    write_status(fallback, written(second, state="stopped"))
    assert ask("live")[0] == code


def test_a_file_of_this_boot_counts_before_one_of_another(place: Path, ask: Ask) -> None:
    path = write(place, status(written_ms=1))
    fallback = fallback_status_files(path)[0]
    fallback.parent.mkdir(parents=True)
    write_status(fallback, status(written_ms=9, supervisor=SupervisorFacts(1, "1", "before"), state="stopped"))
    assert ask("live") == (0, "live: ok")


def test_where_no_boot_is_told_the_wall_clock_tells(place: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "boot", lambda: "")
    path = write(place, status(written_ms=1, written_mono_ms=NOW_MONO_MS + 9))
    fallback = fallback_status_files(path)[0]
    fallback.parent.mkdir(parents=True)
    write_status(fallback, status(written_ms=9))
    assert ask("live") == (0, "live: ok")


def test_somebody_elses_fallback_is_not_believed(place: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(place, status(written_mono_ms=NOW_MONO_MS - 1_000))
    fallback = fallback_status_files(path)[0]
    fallback.parent.mkdir(parents=True)
    write_status(fallback, status(written_mono_ms=NOW_MONO_MS, state="stopped"))
    real = os.lstat(fallback.parent)
    other = os.stat_result((*real[:4], real.st_uid + 1, *real[5:10]))
    monkeypatch.setattr(os, "lstat", lambda path: other)
    assert ask("live") == (0, "live: ok")
