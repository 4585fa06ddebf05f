"""Facts about the own process, by psutil."""

from __future__ import annotations

import psutil

from workfleet.ports.metrics import ProcessFacts


class OwnProcess:
    """Reads the process that it is made in."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def read(self) -> ProcessFacts:
        """A `ProcessReader`."""
        with self._process.oneshot():
            times = self._process.cpu_times()
            return ProcessFacts(
                rss_bytes=self._process.memory_info().rss,
                cpu_seconds=times.user + times.system,
                threads=self._process.num_threads(),
                open_fds=self._process.num_fds() if hasattr(self._process, "num_fds") else None,
            )


def host_memory_bytes() -> int:
    """The machine's memory."""
    return int(psutil.virtual_memory().total)
