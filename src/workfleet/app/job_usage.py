"""What a run in a pool's child uses: processor time, and the most memory that the child held meanwhile.

It is measured in the child, which works on one run at a time; a run that is killed is not measured."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.pools.exits import own_peak_bytes
from workfleet.supervision.proc import peak_bytes

CPU = "workfleet_job_cpu_seconds"
PEAK_MEMORY = "workfleet_job_peak_memory_bytes"

BUCKETS = tuple(2.0**bits for bits in range(23, 38))
"""From 8 MiB to 128 GiB, by powers of two."""


class JobUsage:
    """Measures runs one after the other."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        registry.define(CPU, "histogram")
        registry.define(PEAK_MEMORY, "histogram", buckets=BUCKETS)

    @contextmanager
    def measured(self, job: str, queue: str) -> Iterator[None]:
        """Measure the body as a run of this job, however it ends."""
        labels = {"job": job, "queue": queue}
        _forget_peak()
        begun_s = _cpu_s()
        try:
            yield
        finally:
            self._registry.histogram(CPU, max(_cpu_s() - begun_s, 0.0), labels=labels)
            self._registry.histogram(PEAK_MEMORY, _peak_bytes(), labels=labels)


def _cpu_s() -> float:
    """Processor time of this process, and of the programs that it has started and waited for."""
    waited_for = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + waited_for.ru_utime + waited_for.ru_stime


def _forget_peak() -> None:
    """Let the kernel begin the peak anew from what is held now (proc(5), /proc/pid/clear_refs). Where there is no such
    thing, the peak is since the program began."""
    with suppress(OSError), open("/proc/self/clear_refs", "wb", buffering=0) as reset:
        reset.write(b"5")


def _peak_bytes() -> int:
    return peak_bytes(os.getpid()) or own_peak_bytes()
