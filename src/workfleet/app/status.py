"""The status file: one small JSON document by which `probe` and `status` judge a running fleet without asking it.

The supervisor writes it every second and at each change of state, whole or not at all (temporary file, then rename).
This file owns the format and the place; it knows no worker and no store.

**Format**, version 1 (readers ignore fields they do not know and refuse a higher `version`). Instants end in `_ms`,
wall time in UTC; `_mono_ms` is the machine's monotonic clock (Python's `time.monotonic()`), which a clock set back by a
year does not move; `_age_ms` is how old something was when the file was written.

    version          1
    app              the application's name
    host             the machine's name
    supervisor       {"pid", "started", "boot_id"}: `started` and `boot_id` as in `ProcessIdentity`
    started_ms       when the supervisor started
    written_ms, written_mono_ms    when this file was written
    state            "starting" | "ready" | "draining" | "stopped"
    ever_ready       whether the fleet has been ready since it started
    reason           why it stops or stopped, for people
    store            the store without its secrets; "" until it is known
    workers          a list of
        index, id, pid (null: none at the moment), restarts
        state            "starting" | "ready" | "draining" | "stopped" | "waiting" (is being replaced) | "stuck" (was to
                         be replaced, but cannot be killed: for ten seconds, SIGKILL has not ended it)
        uptime_ms        since this process started
        beat_age_ms      since its last message; null before the first
        loop_lag_ms      how late its event loop is
        store_ok_age_ms  since its last successful claim round trip; null before the first
        store_error      what the store said last, null when it works
        unready          why it is not ready, as its health checks say (a list of sentences)
        active, completed, failed       jobs
        pools            what the worker tells about the pools that it has started, by name: `PoolReport` with all
                         its fields
        details          what it tells about itself (an object). `health`: its `HealthReport`, once there is one: what
                         each indicator said, with its status, reason, facts and whether it is critical
        last_exit        how the process before this one ended, null for the first; last_exit_age_ms: since then
        instruction      what an operator told it: "quiet" | "stop" | "recycle"; null: nothing
        running          while nothing is heard of it (beat_age_ms >= 5 s): up to five of the jobs that it runs, "name
                         (id)", the newest first, as its board says

**How `probe` judges.** age = time.monotonic() * 1000 − written_mono_ms; a file whose age is negative, or whose boot is
another one (`boot_id` up to its "/"), counts as infinitely old: its clock says nothing here. No file, or one that
cannot be read, fails every probe.

    live     age < 15 s, state is not "stopped", and no worker is "stuck". Never depends on the store
    ready    live, state is "ready", and at least one worker has state "ready", beat_age_ms + age < 30 s (its event
             loop is not blocked), an empty `unready`, and store_ok_age_ms + age < 30 s. What is ill all the same is
             told along with "ok": what `details.health` says is not healthy, and beat_age_ms + age >= 5 s
    startup  age < 15 s and ever_ready

Where the supervisor's process can be seen and is gone, or another one has its pid, all three fail at once, unless the
state is "stopped".

**Owner.** A file belongs to the supervisor that it names, as long as that process lives and has not stopped. Another
one of the same app on the same machine leaves it alone: it writes `beside(path)` instead, which no probe looks at
unless it is named, says so in the log, and removes it at its end. When the owner has ended, it takes the file over.
What one that was killed has left beside it, the next run of the app removes.

**Place.** `WORKER_STATUS_FILE`, else `<project root>/.workfleet/<app>.status.json`. Where that cannot be written (a
read-only container, a full disk), the first of `fallback_status_files(path)` that can is written instead, and the log
says so; readers look at all places and take the latest one: of this boot before others, by `written_mono_ms`; of other
boots by `written_ms`.
"""

from __future__ import annotations

import glob
import os
import re
import socket
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from workfleet.model.fleet import ProcessIdentity
from workfleet.supervision.identity import boot_id, is_alive

VERSION = 1
MEMORY_FOLDER = "/dev/shm"
"""A file system in memory, which Linux has, also in containers, where one disk often holds all other places."""

FleetState = Literal["starting", "ready", "draining", "stopped"]
WorkerState = Literal["starting", "ready", "draining", "stuck", "waiting", "stopped"]


class SupervisorFacts(Struct, frozen=True):
    """Which process writes the file."""

    pid: int
    started: str
    boot_id: str


class WorkerStatus(Struct, kw_only=True):
    """One worker, as described at the head of this module."""

    index: int
    id: str
    pid: int | None
    state: WorkerState
    restarts: int = 0
    uptime_ms: int = 0
    beat_age_ms: int | None = None
    loop_lag_ms: int = 0
    store_ok_age_ms: int | None = None
    store_error: str | None = None
    unready: tuple[str, ...] = ()
    active: int = 0
    completed: int = 0
    failed: int = 0
    pools: dict[str, Any] = {}
    details: dict[str, Any] = {}
    last_exit: str | None = None
    last_exit_age_ms: int | None = None
    instruction: str | None = None
    running: tuple[str, ...] = ()


class Status(Struct, kw_only=True):
    """The whole document, as described at the head of this module."""

    version: int = VERSION
    app: str
    host: str
    supervisor: SupervisorFacts
    started_ms: int
    written_ms: int
    written_mono_ms: int
    state: FleetState
    ever_ready: bool
    reason: str = ""
    store: str = ""
    workers: list[WorkerStatus] = []


def default_status_file(project_root: Path, app: str) -> Path:
    """Where an app's status file is unless `WORKER_STATUS_FILE` says otherwise."""
    return project_root / ".workfleet" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', app)}.status.json"


def fallback_status_files(path: Path) -> list[Path]:
    """Where the file goes when `path` cannot be written, one after the other:
    `$TMPDIR/workfleet-<uid>/<crc32 of the path>-<name>`, and the same in `/dev/shm` where there is one.

    The checksum (eight hexadecimal digits of the absolute path's bytes) keeps two apps of one name apart.
    """
    crc = zlib.crc32(os.fsencode(os.path.abspath(path)))
    folders = [os.environ.get("TMPDIR") or "/tmp", *filter(os.path.isdir, [MEMORY_FOLDER])]
    return [Path(folder) / f"workfleet-{os.getuid()}" / f"{crc:08x}-{path.name}" for folder in folders]


def write_status(path: Path, status: Status) -> None:
    """Write the file whole or not at all. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.encode(status))
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_status(path: Path) -> Status | None:
    """The latest of the file at `path` and its fallbacks. None when there is none that this version understands."""
    found = []
    for place in (path, *fallback_status_files(path)):
        try:
            if place.is_file():  # to open a pipe would be to wait for a writer
                found.append(msgspec.json.decode(place.read_bytes(), type=Status))
        except (OSError, msgspec.MsgspecError):
            continue
    known = [status for status in found if status.version <= VERSION]
    return max(known, key=_written, default=None)


def _written(status: Status) -> tuple[bool, int]:
    """Greater for what was written later. A wall clock may be set back, this boot's monotonic one is not."""
    here = is_of_this_boot(status)
    return here, status.written_mono_ms if here else status.written_ms


def is_of_this_boot(status: Status) -> bool:
    """Whether it was written since this machine was started, here: else its monotonic clock says nothing."""
    return status.supervisor.boot_id.partition("/")[0] == boot_id().partition("/")[0]


def beside(path: Path, pid: int) -> Path:
    """Where a second supervisor writes: `shop.status.json` becomes `shop.status.4711.json`."""
    return path.with_name(f"{path.stem}.{pid}{path.suffix}")


def _owner_of(path: Path, own: SupervisorFacts) -> int | None:
    """The process of another living supervisor of this machine whose file this is."""
    there = read_status(path)
    if there is None or there.supervisor == own or there.state == "stopped":
        return None
    facts = there.supervisor
    identity = ProcessIdentity(there.host, facts.boot_id, facts.pid, facts.started)
    # Of another machine or boot nothing can be seen: a file that such a one left must not be in the way for ever.
    seen = (identity.host, identity.boot_id) == (socket.gethostname(), own.boot_id)
    return facts.pid if seen and is_alive(identity) else None


def _remove_left_beside(path: Path, own: Status) -> None:
    """Delete what supervisors of this machine wrote beside the file that have ended without doing so themselves."""
    for left in path.parent.glob(f"{glob.escape(path.stem)}.*{glob.escape(path.suffix)}"):
        pid = left.name.removeprefix(f"{path.stem}.").removesuffix(path.suffix)
        there = read_status(left) if pid.isdecimal() else None
        if there is None or there.host != own.host or str(there.supervisor.pid) != pid:
            continue
        facts = there.supervisor
        if not is_alive(ProcessIdentity(there.host, facts.boot_id, facts.pid, facts.started)):
            with suppress(OSError):  # somebody else was quicker, or may do what this one may not
                left.unlink()


class StatusFile:
    """Where a supervisor writes: the wanted place; as long as that fails, a fallback; beside it while it is
    another's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told = ""
        self._beside: Path | None = None
        self._tidied = False

    def write(self, status: Status) -> str | None:
        """Write, and return a sentence for the log when something about the place has changed."""
        if not self._tidied:
            self._tidied = True
            _remove_left_beside(self.path, status)
        told = self._write(status)
        if told == self._told:
            return None
        self._told = told
        return told or f"the status file {self.path} is written from now on"

    def _write(self, status: Status) -> str:
        owner = _owner_of(self.path, status.supervisor)
        if owner is not None:
            return self._write_beside(status, owner)
        self._leave_beside()
        try:
            _write_in(self.path, status)
        except OSError as error:
            head = f"the status file {self.path} cannot be written ({error.strerror or error})"
        else:
            return ""
        for fallback in fallback_status_files(self.path):
            try:
                _write_in(fallback, status, private=True)
            except OSError as error:
                head = f"{head}, nor can {fallback} ({error.strerror or error})"
            else:
                return f"{head}: {fallback} is used meanwhile"
        return f"{head}: probes will fail. Set WORKER_STATUS_FILE"

    def _write_beside(self, status: Status, owner: int) -> str:
        head = f"the status file {self.path} is that of another run of this app, process {owner}"
        if status.state == "stopped":
            self._leave_beside()
            return self._told
        place = self._beside = beside(self.path, status.supervisor.pid)
        try:
            _write_in(place, status)
        except OSError as error:
            return f"{head}; {place} cannot be written either ({error.strerror or error}). Set WORKER_STATUS_FILE"
        return f"{head}: this one writes {place}. Probes and `status` see the other one"

    def _leave_beside(self) -> None:
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)
            self._beside = None


def _write_in(path: Path, status: Status, *, private: bool = False) -> None:
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    if private and folder.lstat().st_uid != os.getuid():
        # The temporary folder is everybody's: never write through somebody else's folder or link.
        raise PermissionError(f"{folder} belongs to somebody else")
    write_status(path, status)
