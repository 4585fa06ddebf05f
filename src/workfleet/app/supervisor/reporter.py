"""Writes the status file: every second, and at once when something has changed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from workfleet.app.status import Status, StatusFile, SupervisorFacts, WorkerStatus
from workfleet.events import Event, SettingIgnored
from workfleet.ports.clock import Clock
from workfleet.supervision.identity import own_identity

from .custody import Custody
from .options import SupervisorOptions
from .run import Run
from .waiting import first

_EVERY_S = 1.0


class Reporter:
    """A Service. It writes nothing until the place is known: from the options, or from the first worker's settings."""

    name = "reporter"

    def __init__(
        self,
        options: SupervisorOptions,
        run: Run,
        custody: Custody,
        workers: Callable[[], list[WorkerStatus]],
        *,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._options, self._run, self._custody, self._workers = options, run, custody, workers
        self._clock, self._publish = clock, publish
        identity = own_identity()
        self._supervisor = SupervisorFacts(os.getpid(), identity.started, identity.boot_id)
        self._started_ms = clock.now_ms()
        self._file: StatusFile | None = None

    async def serve(self) -> None:
        while True:
            self._run.changed.clear()
            self.write()
            await first(_EVERY_S, self._run.changed.wait())

    def write(self) -> None:
        """Write the file now."""
        file = self._file = self._file or self._place()
        told = file.write(self.status()) if file else None
        if told is not None:
            self._publish(SettingIgnored(warning=told))

    def _place(self) -> StatusFile | None:
        path = self._options.status_file or (self._run.hello.status_file if self._run.hello else None)
        return StatusFile(Path(path)) if path else None

    def status(self) -> Status:
        """How the fleet is now."""
        return Status(
            app=self._run.hello.app if self._run.hello else self._options.app,
            host=socket.gethostname(),
            supervisor=self._supervisor,
            started_ms=self._started_ms,
            written_ms=self._clock.now_ms(),
            written_mono_ms=int(self._clock.monotonic() * 1000),
            state=self._run.state,
            ever_ready=self._run.ever_ready,
            reason=self._run.summary.reason,
            store=self._custody.store_url,
            workers=self._workers(),
        )
