"""The start log: the application and its store, and every handler and schedule that a process knows, with target and
next fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from workfleet.events import Declared, WorkerStarting
from workfleet.model.durations import format_duration
from workfleet.model.timing import At, CronTiming, Every
from workfleet.ports.stores import Store

from .builtins import Basis
from .composition import Composition
from .definitions import Definition
from .merged import MergedSchedules


def announce(
    basis: Basis, store: Store, definitions: Sequence[Definition], merged: MergedSchedules, *, each: bool
) -> None:
    """Publish it. `each` is whether it has a line for each handler and schedule."""
    composition, registry = basis.composition, basis.composition.registry
    basis.bus.publish(
        WorkerStarting(
            app=composition.app.name,
            worker=basis.worker,
            store=store.url,
            jobs=len(registry.handlers),
            schedules=len(registry.schedules),
        )
    )
    if each:
        for line in _lines(composition, definitions, merged):
            basis.bus.publish(Declared(line=line))


def _lines(composition: Composition, definitions: Sequence[Definition], merged: MergedSchedules) -> Iterator[str]:
    if not composition.core.queue_enabled:
        yield "queueing is off (WORKER_QUEUE_ENABLED=false): no queue is consumed, scheduled work runs in this process"
    if not composition.core.scheduler_enabled:
        yield "the scheduler is off (WORKER_SCHEDULER_ENABLED=false): no schedule fires from this process"
    for entry in sorted(composition.registry.handlers, key=lambda entry: (entry.queue, entry.name)):
        yield f"handler {entry.name} on queue {entry.queue} ({entry.code.where})"
    due = {record.name: record.next_due_ms for record in merged.records}
    for definition in sorted(definitions, key=lambda definition: definition.record.name):
        record = definition.record
        parts = [f"schedule {record.name}", _when(definition)]
        if definition.target is not None:
            parts.append(f"-> job {definition.target.job} on queue {definition.target.queue}")
        if definition.run_on_start:
            parts.append(f"at start, once per {definition.run_on_start}")
        if not record.enabled:
            parts.append("disabled")
        elif (at := due.get(record.name)) is not None:
            parts.append(f"next {_instant(at)}" if at > merged.at_ms else "due now")
        yield ", ".join(parts)
    for name in merged.orphaned:
        yield f"schedule {name} is orphaned: it is stored, but no code defines it any more"


def _when(definition: Definition) -> str:
    when = definition.record.timing
    if isinstance(when, CronTiming):
        return f"cron {when.expression!r} in {when.timezone}"
    if isinstance(when, Every):
        return f"every {format_duration(when.every_ms)}"
    if isinstance(when, At):
        return f"once at {_instant(when.at_ms)}"
    return "when triggered"


def _instant(ms: int) -> str:
    return (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms))
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )
