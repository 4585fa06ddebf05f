"""`workfleet dev`: a `workfleet run` of one worker that is started again when a file of the project changes.

It reads no settings: the process that it starts does, so that a changed .env counts, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..app.locator import is_file, split
from ..app.loops import run_loop
from ..clock import SystemClock
from ..settings.root import project_root
from .failures import tell
from .options import Where, app_argument
from .run import log_options
from .supervise import FOLLOWS, tell_running
from .watching import Watcher, watcher

_USAGE = 2
_LET_GO_S = 15.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("dev")
@click.option("--queues", metavar="A,B", help="Only these queues. (WORKER_QUEUES)")
@click.option(
    "--shutdown-timeout",
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="For running jobs to end before a restart; they then run again.",
)
@log_options
@app_argument
def dev(
    *, where: Where, queues: str | None, shutdown_timeout: str, log_level: str | None, log_format: str | None
) -> int:
    """Run one worker with everything logged, and start it again when a file changes.

    Files that count are *.py, *.yaml, .env and pyproject.toml in the project. After an error at the start it waits for
    the next change. Ctrl-C ends it.

    \b
    Examples:
      workfleet dev app.py
      workfleet dev shop.main:app --log-level info
    """
    given = {
        "--config": str(where.config) if where.config else None,
        "--store": where.store,
        "--queues": queues,
        "--shutdown-timeout": shutdown_timeout,
        "--log-level": log_level or "debug",
        "--log-format": log_format,
    }
    arguments = [where.app] if where.app else []
    arguments += [f"{name}={value}" for name, value in given.items() if value is not None]
    folders = _folders(where)
    tell(f"workfleet dev: watching {', '.join(map(str, folders))}")
    command = [sys.executable, "-m", "workfleet", "run", "--processes=1", *arguments]
    return run_loop(lambda: _Dev(command, watcher(folders, SystemClock())).run())


def _folders(where: Where) -> list[Path]:
    """The project, and the application's folder where that is elsewhere."""
    root = project_root(Path.cwd())
    place = split(where.app)[0] if where.app else ""
    own = Path(place).absolute().parent if is_file(place) else root
    return [root] if own.is_relative_to(root) else [root, own]


class _Dev:
    """Starts, watches and restarts one process. Signals to us are passed on to it, one by one."""

    def __init__(self, command: Sequence[str], files: Watcher) -> None:
        self._command, self._files = command, files
        self._child: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._hear, number)
        try:
            while True:
                code = await self._once()
                if code is not None:
                    return code
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def _once(self) -> int | None:
        """One life of the process. Returns our exit code, or None: start it again."""
        change = asyncio.create_task(self._files.changed(), name="file changes")
        try:
            # In a session of its own: Ctrl-C reaches us alone, and we pass it on once.
            child = self._child = await asyncio.create_subprocess_exec(
                *self._command, env={**os.environ, FOLLOWS: str(os.getpid())}, start_new_session=True
            )
            ended = asyncio.create_task(child.wait(), name="run")
            await asyncio.wait({ended, change}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return await self._restart(child, ended, change.result())
            code = ended.result()
            if self._stopping.is_set() or code in (0, _USAGE, 130):
                return code
            tell_running("workfleet dev: waiting for a change")
            stop = asyncio.create_task(self._stopping.wait(), name="signal")
            await asyncio.wait({change, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            return code if self._stopping.is_set() else None
        finally:
            change.cancel()
            await asyncio.gather(change, return_exceptions=True)

    async def _restart(self, child: asyncio.subprocess.Process, ended: asyncio.Task[int], changed: Path) -> int | None:
        tell_running(f"workfleet dev: {changed.name} changed, starting again")
        self._send(child, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=_LET_GO_S)
        if not ended.done():
            self._send(child, signal.SIGKILL)
        code = await ended
        return code if self._stopping.is_set() else None

    def _hear(self, number: signal.Signals) -> None:
        self._stopping.set()
        if self._child is not None and self._child.returncode is None:
            self._send(self._child, signal.SIGTERM if number == signal.SIGHUP else number)

    @staticmethod
    def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
        try:
            child.send_signal(number)
        except ProcessLookupError:
            pass  # it has just ended
