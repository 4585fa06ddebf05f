"""Status files as a supervisor writes them, and `workfleet probe` asked of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workfleet.app.status import Status, SupervisorFacts, WorkerStatus, default_status_file, write_status

NOW_MONO_MS = 10_000_000
Ask = Callable[..., tuple[int, str]]


def worker(**changes: Any) -> WorkerStatus:
    usual = {"index": 0, "id": "w0", "pid": 7, "state": "ready", "store_ok_age_ms": 1_000}
    return WorkerStatus(**{**usual, **changes})


def status(*workers: WorkerStatus, **changes: Any) -> Status:
    usual = {
        "app": "shop",
        "host": "h",
        "supervisor": SupervisorFacts(1, "1", "b"),
        "started_ms": 1,
        "written_ms": 5,
        "written_mono_ms": NOW_MONO_MS - 1_000,
        "state": "ready",
        "ever_ready": True,
        "workers": list(workers) or [worker()],
    }
    return Status(**{**usual, **changes})


def write(project: Path, document: Status, app: str = "shop") -> Path:
    path = default_status_file(project, app)
    path.parent.mkdir(exist_ok=True)
    write_status(path, document)
    return path
