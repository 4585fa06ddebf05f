"""What a supervisor is told, and what it says at the end."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import Struct

from workfleet.supervision.intensity import RestartPolicy


class SupervisorOptions(Struct, frozen=True, kw_only=True):
    """How to run a fleet process group. `config` and `environ` are passed on to the workers as they are."""

    app: str
    """Where the app is: `module:attr` or a file."""
    processes: int = 1
    until_idle: bool = False
    fail_on_failed: bool = False
    """With `until_idle`: exit code 1 when a job failed."""
    queues: tuple[str, ...] | None = None
    """The queues that the workers listen to; None: all."""
    config: dict[str, Any] = {}
    environ: dict[str, str] = {}
    shutdown_timeout_ms: int | None = None
    """The budget of a graceful stop; None: what the workers' settings say."""
    status_file: str | None = None
    """Where the status file goes; None: where the workers' settings say."""
    worker_command: tuple[str, ...] = (sys.executable, "-m", "workfleet.app.worker")
    board_slots: int = 4096
    """How many jobs and locks one worker can hold at a time under the supervisor's care."""
    restart: RestartPolicy = RestartPolicy()


class Summary(Struct, kw_only=True):
    """What a fleet process group did, from its start to its end. A killed worker counts as of its last beat."""

    completed: int = 0
    failed: int = 0
    given_back: int = 0
    crashes: int = 0
    """Worker processes that died."""
    refused: list[str] = []
    """What did not stop in time."""
    problems: list[str] = []
    reason: str = ""
    """Why it ended; "" when there was nothing left to do."""
