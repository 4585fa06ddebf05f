"""One run's own channel to the store: log lines and progress, both under the run's claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from workfleet.errors import StaleClaim, StoreUnavailable
from workfleet.events import Event, JobLogged
from workfleet.model.jobs import JobRecord
from workfleet.payloads.codec import encode_result
from workfleet.ports.stores import JobStore

_LINE_LIMIT = 10_000


class Run:
    """What a `Job` says through: the `RunPort` of one run."""

    def __init__(self, record: JobRecord, jobs: JobStore, publish: Callable[[Event], None]) -> None:
        self._record, self._claim = record, record.claim
        self._jobs, self._publish = jobs, publish
        self._lines: list[str] = []
        self._flushing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._ended = False

    def log(self, line: str) -> None:
        """Keep a line. Called from any thread: handlers may run in one."""
        text = str(line)[:_LINE_LIMIT].encode(errors="replace").decode()
        record = self._record
        self._publish(JobLogged(id=record.id, name=record.name, queue=record.queue, line=text))
        self._lines.append(text)
        if not self._ended:
            self._loop.call_soon_threadsafe(self._start_flush)

    async def progress(self, value: object) -> None:
        data = encode_result(value, f"progress of job {self._record.id}")
        if not await self._jobs.report(self._claim, progress=data):
            self._ended = True
            raise StaleClaim(self._record.id)

    def cancelled(self) -> bool:
        return self._ended

    def end(self) -> None:
        """The run is over for the store, whether its code has noticed or not."""
        self._ended = True

    async def flush(self) -> None:
        """Write the lines that are left. A store that is down costs log lines, never the run's outcome."""
        if self._flushing is not None:
            await self._flushing
        await self._write()

    def _start_flush(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = self._loop.create_task(self._write())

    async def _write(self) -> None:
        while self._lines:
            lines, self._lines = self._lines, []
            try:
                await self._jobs.report(self._claim, lines=lines)
            except StoreUnavailable:
                return
