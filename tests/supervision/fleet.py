"""Starts a real supervisor with scripted workers and looks at what they leave in their folder."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.supervision.fakes import until
from workfleet.app.status import Status, read_status

PROGRAMS = Path(__file__).parent / "programs"


class ScriptedFleet:
    """One `supervise.py`. Ends with the test, and everything that it started with it."""

    def __init__(self, folder: Path, *, options: dict[str, Any] | None = None, **config: Any) -> None:
        self.folder = folder
        given = {
            "app": "test",
            "worker_command": [sys.executable, str(PROGRAMS / "worker.py")],
            "config": {"folder": str(folder), **config},
            **(options or {}),
        }
        self.stderr_path = folder / "stderr"
        with self.stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAMS / "supervise.py"), str(folder), json.dumps(given)],
                stderr=stderr,
                start_new_session=True,
            )

    def lines(self, name: str) -> list[Any]:
        path = self.folder / name
        if not path.exists():
            return []
        whole = path.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def journal(self, what: str) -> list[Any]:
        return [value for key, value in self.lines("journal.jsonl") if key == what]

    def events(self, wire_name: str) -> list[Any]:
        return [fields for key, fields in self.lines("events.jsonl") if key == wire_name]

    def worker_pids(self, *, index: int = 0) -> list[int]:
        return [pid for at, _, pid in self.lines("started") if at == index]

    def status(self) -> Status | None:
        return read_status(self.folder / "status.json")

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text()

    @property
    def summary(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return read

    async def ready(self, workers: int = 1) -> None:
        """Until so many living workers are ready and have beaten."""

        def is_ready() -> bool:
            status, alive = self.status(), self.alive()
            states = [each for each in status.workers if each.beat_age_ms is not None] if status else []
            return len([each for each in states if each.state == "ready" and each.pid in alive]) >= workers

        await self.until(is_ready)

    async def until(self, true: Any, *, seconds: float = 40.0) -> None:
        try:
            await until(true, seconds=seconds)
        except TimeoutError:
            said = "".join(f"{line}\n" for line in self.lines("events.jsonl"))
            raise AssertionError(f"it did not come to pass\n{self.stderr}\n{said}{self.status()}") from None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self, *, seconds: float = 15.0) -> int:
        await self.until(lambda: self.process.poll() is not None, seconds=seconds)
        return self.process.wait()

    def alive(self) -> list[int]:
        """What is left of everything that the workers noted as started."""
        return [pid for pid in self.lines("pids") if _runs(pid)]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def settle_down() -> None:
    """A moment for what must not happen to happen."""
    await asyncio.sleep(0.3)
