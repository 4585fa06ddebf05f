"""What a server sees of a worker that has nothing to do, and what that costs the worker."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from .bench import BenchError, Figures
from .running import cpu_s
from .valkey import Connection, Valkey

SETTLE_S = 15.0
"""Starting up is over by then: the supervisor opens its own store seconds after its workers are ready."""
_INSIDE = b" lua]"
"""In what MONITOR writes down: a command that a script has run, which no client has sent."""


def idle(server: Valkey, processes: Sequence[psutil.Process], seconds: float) -> Figures:
    """`commands_per_minute` is what clients send; `calls_per_minute` is INFO commandstats, which counts what scripts
    run too. The bench's own commands are in neither."""
    watcher = Connection(server.port)
    try:
        watcher.ask("MONITOR")
        time.sleep(SETTLE_S)
        watcher.seen()
        begun, calls, before = time.monotonic(), server.calls(), cpu_s(processes)
        time.sleep(seconds)
        used, calls, taken_s = cpu_s(processes) - before, server.calls() - calls, time.monotonic() - begun
        sent = [line for line in watcher.seen() if _INSIDE not in line.partition(b'"')[0]]
    finally:
        watcher.close()
    if not all(process.is_running() for process in processes):
        raise BenchError("the worker ended while it was idle")
    # INFO is asked for twice: MONITOR shows both, the counters at the end have the first.
    own = sum(line.partition(b'"')[2].startswith(b"INFO") for line in sent)
    per_minute = 60 / taken_s
    return {
        "commands_per_minute": (len(sent) - own) * per_minute,
        "calls_per_minute": (calls - 1) * per_minute,
        "percent_of_a_core": used / taken_s * 100,
    }
