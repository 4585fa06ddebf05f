"""Every metric that workfleet itself has: name, kind, labels, what it says. A test holds the code to it.

HELP lines and the table of `docs/metrics.md` are made of it: `python -m workfleet.observe.metrics.catalogue FILE`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from workfleet.ports.metrics import Kind

from .model import Merge

BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"
PREFIX = "workfleet_"
"""What our names begin with, and no name of the application's may."""


class Metric(Struct, frozen=True):
    """One name."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    merge: Merge = "sum"
    """Of a gauge: what several series are together. Ages and instants have no sum."""


_JOB = ("job", "queue")
_ALL = (
    Metric(
        "workfleet_jobs_total",
        "counter",
        ("job", "outcome", "queue"),
        "Runs of jobs that ended, by outcome: completed, failed, timed_out and so on; retried: it will be tried again; "
        "deferred: no handler here, another worker may have it.",
    ),
    Metric(
        "workfleet_jobs_enqueued_total",
        "counter",
        _JOB,
        "Jobs that a worker has put on a queue, with those that runs return and schedules make.",
    ),
    Metric("workfleet_job_retries_total", "counter", _JOB, "Runs that ended so that the job is tried again."),
    Metric("workfleet_jobs_recovered_total", "counter", _JOB, "Runs whose worker died, taken over from it."),
    Metric(
        "workfleet_job_claims_lost_total", "counter", _JOB, "Runs whose result was discarded: their claim was lost."
    ),
    Metric("workfleet_job_duration_seconds", "histogram", _JOB, "How long runs took, until the store had their end."),
    Metric("workfleet_job_wait_seconds", "histogram", _JOB, "How long jobs waited from when they were ready to start."),
    Metric(
        "workfleet_job_cpu_seconds",
        "histogram",
        _JOB,
        "Processor time of runs in a pool's child, with that of programs that they started and waited for.",
    ),
    Metric(
        "workfleet_job_peak_memory_bytes", "histogram", _JOB, "The most memory that a pool's child held during a run."
    ),
    Metric(
        "workfleet_schedule_fires_total",
        "counter",
        ("outcome", "schedule"),
        "Slots of schedules by what became of them: fired, skipped, coalesced, missed.",
    ),
    Metric("workfleet_schedule_lateness_seconds", "histogram", ("schedule",), "How late slots were fired."),
    Metric(
        "workfleet_schedule_runs_total",
        "counter",
        ("outcome", "schedule"),
        "Runs of a schedule's jobs that ended, by outcome, as in workfleet_jobs_total.",
    ),
    Metric(
        "workfleet_schedule_run_duration_seconds",
        "histogram",
        ("schedule",),
        "How long a schedule's runs took, until the store had their end.",
    ),
    Metric(
        "workfleet_schedule_run_wait_seconds",
        "histogram",
        ("schedule",),
        "How long a schedule's jobs waited from when they were ready to start.",
    ),
    Metric(
        "workfleet_schedule_overdue_seconds",
        "gauge",
        ("schedule",),
        "For how long a schedule should have fired and has not; 0: it is not overdue, or waits for the end of its run.",
        "max",
    ),
    Metric("workfleet_schedule_last_fire_timestamp_seconds", "gauge", ("schedule",), "When it was last fired.", "max"),
    Metric("workfleet_schedule_next_slot_timestamp_seconds", "gauge", ("schedule",), "When it is due next.", "min"),
    Metric("workfleet_queue_jobs", "gauge", ("queue", "state"), "Jobs of the queue by state, finished ones included."),
    Metric(
        "workfleet_queue_oldest_job_age_seconds",
        "gauge",
        ("queue",),
        "For how long the oldest ready job waits; 0: none does.",
        "max",
    ),
    Metric("workfleet_queue_paused", "gauge", ("queue",), "1: the queue is paused."),
    Metric("workfleet_workers", "gauge", (), "Worker processes of the fleet that gave a sign of life within a minute."),
    Metric("workfleet_locks_held", "gauge", (), "Locks that are held in the fleet."),
    Metric("workfleet_locks_total", "counter", ("outcome",), "Locks by what became of them: acquired, busy, lost."),
    Metric(
        "workfleet_store_errors_total",
        "counter",
        (),
        "Outages of the store that loops of workers met: each counts one once, and tries again until it is over.",
    ),
    Metric("workfleet_service_restarts_total", "counter", ("service",), "Loops of a worker that failed and went on."),
    Metric(
        "workfleet_pool_calls_total",
        "counter",
        ("method", "outcome", "pool"),
        "Calls of pools that ended, by outcome.",
    ),
    Metric(
        "workfleet_pool_call_duration_seconds", "histogram", ("method", "pool"), "How long a child worked on a call."
    ),
    Metric("workfleet_pool_call_wait_seconds", "histogram", ("pool",), "How long calls waited for a child."),
    Metric("workfleet_pool_restarts_total", "counter", ("pool",), "Children started to replace one that died unasked."),
    Metric(
        "workfleet_pool_child_deaths_total", "counter", ("cause", "pool"), "Children that died unasked, or were killed."
    ),
    Metric(
        "workfleet_pool_children_recycled_total", "counter", ("pool",), "Children replaced by a warm one, as meant."
    ),
    Metric("workfleet_pool_size", "gauge", ("host", "pool", "worker"), "Children that a pool is to have."),
    Metric("workfleet_pool_children", "gauge", ("host", "pool", "state", "worker"), "Children that are ready or busy."),
    Metric("workfleet_pool_queued_calls", "gauge", ("host", "pool", "worker"), "Calls that wait for a child."),
    Metric(
        "workfleet_pool_child_resident_memory_bytes",
        "gauge",
        ("host", "place", "pool", "worker"),
        "Memory of a child, by its place in the pool.",
    ),
    Metric(
        "workfleet_pool_child_cpu_ratio",
        "gauge",
        ("host", "place", "pool", "worker"),
        "Share of one processor that a child uses, by its place in the pool.",
    ),
    Metric("workfleet_worker_deaths_total", "counter", (), "Worker processes that died unasked."),
    Metric(
        "workfleet_worker_loop_blocked_seconds",
        "gauge",
        ("host", "worker"),
        "For how long the event loop of a worker makes no progress, told from 5 s on by its supervisor; 0: it goes on.",
        "max",
    ),
    Metric(
        "workfleet_metrics_file_timestamp_seconds",
        "gauge",
        ("host",),
        "When the text file was written; one that a fleet which was stopped has left does not say.",
        "max",
    ),
    Metric(
        "workfleet_metrics_dropped_total",
        "counter",
        ("reason",),
        "What was measured and thrown away: series_limit (too many label values), not_finite, buffer_full (no store), "
        "memory_full (in memory, for newer ones), "
        "conflict (a pool's child uses a name otherwise than its worker), too_large (too many buckets for a child).",
    ),
    Metric(
        "workfleet_health_status",
        "gauge",
        ("host", "indicator", "status", "worker"),
        "What a worker's health indicator said last: 1 at its status (healthy, degraded, unhealthy), 0 at the others.",
    ),
    Metric("workfleet_process_resident_memory_bytes", "gauge", ("host", "worker"), "Memory of a worker process."),
    Metric("workfleet_process_cpu_seconds_total", "counter", ("host", "worker"), "Processor time of a worker process."),
    Metric("workfleet_process_threads", "gauge", ("host", "worker"), "Threads of a worker process."),
    Metric("workfleet_process_open_fds", "gauge", ("host", "worker"), "Open files and sockets of a worker process."),
    Metric(
        "workfleet_system_memory_limit_bytes",
        "gauge",
        ("host",),
        "Memory that the container may use; without a limit: the machine's.",
    ),
    Metric(
        "workfleet_system_memory_used_bytes", "gauge", ("host",), "Memory in use there, without what can be dropped."
    ),
    Metric("workfleet_system_cpu_limit_cores", "gauge", ("host",), "Processors that may be used, perhaps a fraction."),
    Metric("workfleet_system_cpu_seconds_total", "counter", ("host",), "Processor time used there."),
    Metric(
        "workfleet_system_cpu_throttled_seconds_total",
        "counter",
        ("host",),
        "For how long the container had to stand still because of its processor quota.",
    ),
)
CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})


def table() -> str:
    """The catalogue in Markdown."""
    lines = ["| name | type | labels | what it says |", "|---|---|---|---|"]
    for metric in CATALOGUE.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.text} |")
    return "\n".join(lines)


def renewed(document: str) -> str:
    """The document with the table between its marks made anew."""
    between = f"{BEGIN}\n{table()}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: between, document, flags=re.DOTALL)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text("utf-8")), "utf-8")
