"""Keeps a file in Prometheus' text format up to date, for workers that nobody can ask by HTTP.

It says when it was written, so that one that a killed process has left is seen to be old. That of a process which ended
in order says nothing of it: it is as it should be, however old it gets.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from workfleet.events import Event, MetricsFileFailed
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Sample

from .exposition import exposition, write_textfile

WRITTEN = "workfleet_metrics_file_timestamp_seconds"


class Textfile:
    """A service: at every interval, and once more at the end. A file that cannot be written is told once, and tried
    again."""

    def __init__(
        self,
        path: Path,
        read: Callable[[], Iterable[Sample]],
        clock: Clock,
        publish: Callable[[Event], None],
        *,
        interval_ms: int = 10_000,
    ) -> None:
        self._path, self._read, self._clock, self._publish = path, read, clock, publish
        self._interval_ms = interval_ms
        self._ill = False
        self.name = "metrics file"

    async def serve(self) -> None:
        try:
            while True:
                await self._clock.sleep(self._interval_ms / 1000)
                self.write()
        finally:
            self.write(last=True)

    def write(self, *, last: bool = False) -> None:
        """Write it now. `last`: nobody will write it again, as it was meant."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_textfile(self._path, exposition([*self._read(), *([] if last else [self._written()])]))
        except OSError as error:
            if not self._ill:
                self._publish(MetricsFileFailed(path=str(self._path), reason=error.strerror or str(error)))
            self._ill = True
        else:
            self._ill = False

    def _written(self) -> Sample:
        labels = (("host", socket.gethostname()),)
        return Sample(name=WRITTEN, kind="gauge", labels=labels, value=self._clock.now_ms() / 1000)
