"""The status file: whole, where it should be, or at its fallback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workfleet.app.status
from workfleet.app.status import (
    Status,
    StatusFile,
    SupervisorFacts,
    WorkerStatus,
    beside,
    default_status_file,
    fallback_status_files,
    read_status,
    write_status,
)
from workfleet.supervision.identity import identity_of, own_identity


def status(**changed: object) -> Status:
    facts: dict[str, object] = {
        "app": "shop",
        "host": "web1",
        "supervisor": SupervisorFacts(1, "123", "boot"),
        "started_ms": 1,
        "written_ms": 2,
        "written_mono_ms": 3,
        "state": "ready",
        "ever_ready": True,
    }
    return Status(**{**facts, **changed})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(workfleet.app.status, "MEMORY_FOLDER", str(tmp_path / "memory"))
    return folder


def test_the_document_has_the_fields_that_probe_reads(tmp_path: Path) -> None:
    """`probe` reads it with the standard library only, so names and types are a promise."""
    worker = WorkerStatus(index=0, id="w", pid=9, state="ready", store_ok_age_ms=5, beat_age_ms=4)
    write_status(tmp_path / "s.json", status(workers=[worker]))
    assert json.loads((tmp_path / "s.json").read_text()) == {
        "version": 1,
        "app": "shop",
        "host": "web1",
        "supervisor": {"pid": 1, "started": "123", "boot_id": "boot"},
        "started_ms": 1,
        "written_ms": 2,
        "written_mono_ms": 3,
        "state": "ready",
        "ever_ready": True,
        "reason": "",
        "store": "",
        "workers": [
            {
                "index": 0,
                "id": "w",
                "pid": 9,
                "state": "ready",
                "restarts": 0,
                "uptime_ms": 0,
                "beat_age_ms": 4,
                "loop_lag_ms": 0,
                "store_ok_age_ms": 5,
                "store_error": None,
                "unready": [],
                "active": 0,
                "completed": 0,
                "failed": 0,
                "pools": {},
                "details": {},
                "last_exit": None,
                "last_exit_age_ms": None,
                "instruction": None,
                "running": [],
            }
        ],
    }


def test_the_folder_is_made_and_nothing_else_is_left_in_it(tmp_path: Path) -> None:
    path = default_status_file(tmp_path, "my/shop")
    assert path == tmp_path / ".workfleet" / "my_shop.status.json"
    file = StatusFile(path)
    assert [file.write(status(written_ms=number)) for number in range(3)] == [None, None, None]
    assert os.listdir(path.parent) == ["my_shop.status.json"]
    assert read_status(path) == status(written_ms=2)


def test_where_it_cannot_be_written_the_fallback_is_used_and_said_once(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    path = tmp_path / "blocked" / "s.json"
    file = StatusFile(path)
    fallback = fallback_status_files(path)[0]
    assert fallback.parent == temporary / f"workfleet-{os.getuid()}"
    assert file.write(status()) == (
        f"the status file {path} cannot be written (File exists): {fallback} is used meanwhile"
    )
    assert file.write(status(written_ms=5)) is None
    assert read_status(path) == status(written_ms=5)
    assert fallback.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "blocked").unlink()
    assert file.write(status(written_ms=6)) == f"the status file {path} is written from now on"
    assert read_status(path) == status(written_ms=6)  # the later of the two


class Other:
    """A living process that stands for another supervisor, and what it writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        identity = identity_of(self.process.pid)
        assert identity is not None
        self.facts = SupervisorFacts(identity.pid, identity.started, identity.boot_id)

    def write(self, **changed: object) -> None:
        write_status(self.path, status(host=socket.gethostname(), supervisor=self.facts, **changed))

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Other]:
    made = Other(tmp_path / "shop.status.json")
    yield made
    made.end()


def own_status(**changed: object) -> Status:
    own = own_identity()
    return status(host=own.host, supervisor=SupervisorFacts(own.pid, own.started, own.boot_id), **changed)


def test_a_living_supervisors_file_is_left_alone_until_it_has_ended(other: Other) -> None:
    other.write(written_ms=1)
    file, place = StatusFile(other.path), beside(other.path, os.getpid())
    assert place.name == f"shop.status.{os.getpid()}.json"
    assert file.write(own_status(written_ms=5)) == (
        f"the status file {other.path} is that of another run of this app, process {other.process.pid}: this one "
        f"writes {place}. Probes and `status` see the other one"
    )
    assert file.write(own_status(written_ms=6)) is None
    theirs, ours = read_status(other.path), read_status(place)
    assert theirs is not None
    assert (theirs.supervisor, theirs.written_ms) == (other.facts, 1)
    assert ours == own_status(written_ms=6)

    other.end()
    assert file.write(own_status(written_ms=7)) == f"the status file {other.path} is written from now on"
    assert read_status(other.path) == own_status(written_ms=7)
    assert not place.exists()


def test_a_stopped_supervisors_file_is_nobodys(other: Other) -> None:
    other.write(state="stopped")
    assert StatusFile(other.path).write(own_status()) is None
    assert read_status(other.path) == own_status()


@pytest.mark.parametrize("changed", [{"host": "web2"}, {"supervisor": SupervisorFacts(1, "123", "another boot")}])
def test_what_another_machine_or_boot_left_is_not_in_the_way(tmp_path: Path, changed: dict[str, object]) -> None:
    path = tmp_path / "shop.status.json"
    write_status(path, status(**changed))
    assert StatusFile(path).write(own_status()) is None
    assert read_status(path) == own_status()


def test_what_a_killed_second_run_left_beside_it_goes_with_the_next_start(other: Other) -> None:
    other.write()
    alive, elsewhere = other.path, beside(other.path, 4711)
    killed = Other(beside(other.path, other.process.pid + 1_000_000))
    killed.path = beside(other.path, killed.process.pid)
    killed.write()
    others = [beside(alive, other.process.pid), elsewhere, other.path.with_name("shop.status.old.json")]
    write_status(others[0], status(host=socket.gethostname(), supervisor=other.facts))
    write_status(others[1], status(host="web2", supervisor=SupervisorFacts(4711, "1", "another boot")))
    others[2].write_text("{}")
    StatusFile(alive).write(own_status())
    assert killed.path.exists(), "its process lives"
    killed.end()
    StatusFile(alive).write(own_status())
    assert not killed.path.exists()
    assert all(path.exists() for path in others)


def test_nothing_is_left_beside_it_at_the_end(other: Other) -> None:
    other.write()
    file = StatusFile(other.path)
    file.write(own_status())
    assert file.write(own_status(state="stopped")) is None
    assert [path.name for path in other.path.parent.iterdir() if path.is_file()] == ["shop.status.json"]
    theirs = read_status(other.path)
    assert theirs is not None
    assert theirs.supervisor == other.facts


@pytest.mark.parametrize("here", [True, False])
def test_of_two_files_the_one_that_was_written_last_counts(tmp_path: Path, here: bool) -> None:
    """Of this boot by the monotonic clock, though the wall clock was set back; of another boot that says nothing."""
    facts = SupervisorFacts(1, "123", own_identity().boot_id if here else "boot")
    path = tmp_path / "s.json"
    fallback = fallback_status_files(path)[0]
    fallback.parent.mkdir()
    last = status(supervisor=facts, **({"written_mono_ms": 9} if here else {"written_ms": 9}))
    for earlier, later in ((path, fallback), (fallback, path)):
        write_status(earlier, status(supervisor=facts, written_ms=8, written_mono_ms=8))
        write_status(later, last)
        assert read_status(path) == last


def test_a_file_of_this_boot_counts_before_one_of_another(tmp_path: Path) -> None:
    ours = status(supervisor=SupervisorFacts(1, "123", own_identity().boot_id), written_ms=1, written_mono_ms=1)
    path = tmp_path / "s.json"
    fallback_status_files(path)[0].parent.mkdir()
    write_status(path, ours)
    write_status(fallback_status_files(path)[0], status(written_ms=9, written_mono_ms=9))
    assert read_status(path) == ours


def test_where_nothing_can_be_written_people_are_told_what_to_do(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "blocked"))
    told = StatusFile(tmp_path / "blocked" / "s.json").write(status())
    assert told is not None
    assert told.endswith("probes will fail. Set WORKER_STATUS_FILE")
    assert not (tmp_path / "memory").exists(), "it is not made where the machine has none"


def test_the_memory_takes_it_where_no_disk_does(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "blocked"))
    (tmp_path / "memory").mkdir()
    path = tmp_path / "blocked" / "s.json"
    file = StatusFile(path)
    there = fallback_status_files(path)
    assert [each.parent.parent for each in there] == [tmp_path / "blocked", tmp_path / "memory"]
    assert file.write(status()) == (
        f"the status file {path} cannot be written (File exists), nor can {there[0]} (Not a directory): "
        f"{there[1]} is used meanwhile"
    )
    assert read_status(path) == status()
    assert there[1].parent.stat().st_mode & 0o777 == 0o700


def test_somebody_elses_folder_is_not_written_to(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "missing" / "s.json"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (temporary / "workfleet-4242").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    (tmp_path / "missing").write_text("")
    told = StatusFile(path).write(status())
    assert told is not None
    assert "belongs to somebody else" in told
    assert os.listdir(temporary / "workfleet-4242") == []


def test_two_places_have_two_fallbacks(tmp_path: Path) -> None:
    assert fallback_status_files(tmp_path / "a" / "s.json")[0] != fallback_status_files(tmp_path / "b" / "s.json")[0]


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"version": 1}'])
def test_what_is_no_status_reads_as_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "s.json"
    if content is not None:
        path.write_bytes(content)
    assert read_status(path) is None


def test_a_later_version_is_refused_and_a_later_field_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_status(path, status(version=2))
    assert read_status(path) is None
    write_status(path, status())
    path.write_bytes(path.read_bytes()[:-1] + b',"more":1}')
    assert read_status(path) == status()
