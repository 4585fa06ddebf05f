"""The schedules that code defines, as the records that stores merge and the handlers that run them.

Every fire makes a job on the app's own queue; that job runs the scheduled function. With a queue target the function's
return value then becomes the payload of a second job, whose id derives from the first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from workfleet.enqueueing import Enqueueing
from workfleet.errors import ConfigError, Problem
from workfleet.ids import derived_id
from workfleet.model.checks import run_overrides
from workfleet.model.durations import duration_ms
from workfleet.model.jobs import JobRecord
from workfleet.model.jobtypes import JobType, NewJob
from workfleet.model.missed import missed_of
from workfleet.model.outcome import RunPolicy
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.setting import Setting
from workfleet.payloads.codec import encode_result
from workfleet.queues.handlers import Returned
from workfleet.schedules.declare import QueueTarget, ScheduleSpec, expires_ms, skips_of, timing_of
from workfleet.settings.core import JobOverride, Settings
from workfleet.settings.sections import SchedulerSettings

from .backoffs import Backoffs
from .policies import jitter_ms, resolved, run_policy, schedule_defaults
from .registry import ScheduleEntry


@dataclass(frozen=True)
class Definition:
    """One schedule of the code: what is stored of it, how it runs, and when it runs at start."""

    entry: ScheduleEntry
    record: ScheduleRecord
    policy: RunPolicy
    target: QueueTarget | None
    run_on_start: str | None
    per_process: bool
    skips: Callable[[int], bool] | None = None
    """Which slots the code leaves out; what is stored says only that it does."""


def schedules_queue(app: str) -> str:
    """The queue on which scheduled functions run; no Node worker listens to it."""
    return f"{app}-schedules"


def define(
    entry: ScheduleEntry,
    *,
    app: str,
    core: Settings,
    scheduler: SchedulerSettings,
    override: JobOverride | None,
    resolve: Callable[[Setting], Any],
    backoffs: Backoffs,
) -> Definition:
    """The definition of a declared schedule, with settings and overrides applied. Raises `ConfigError`."""
    spec = _overridden(entry.spec, override, resolve)
    options, defaults, where = spec.options, scheduler.default_job_options, entry.code.where
    runs = backoffs.named(where, options)
    policy = run_policy(where, runs, override, max_crashes=core.max_crashes, **schedule_defaults(defaults))
    try:
        when = timing_of(spec, name=entry.name, default_timezone=core.timezone)
    except ValueError as error:
        raise ConfigError(Problem(where, f"schedule {entry.name!r}: {error}")) from None
    on_start = options.get("run_on_start", False)
    run_on_start = "process" if on_start is True else on_start or None
    target = _target(spec.target, entry.name, core.default_queue)
    record = ScheduleRecord(
        name=entry.name,
        timing=when,
        fingerprint="",
        job=JobRecord(
            id="",
            queue=schedules_queue(app),
            name=entry.name,
            run=run_overrides({}),
            expires_after_ms=expires_ms(options.get("expires", defaults.expires)),
            housekeeping=spec.per_process,
        ),
        description=options.get("description", ""),
        facts=_facts(entry, spec, target, run_on_start),
        enabled=bool(options.get("enabled", defaults.enabled)),
        overlap=options.get("overlap", defaults.overlap),
        jitter_ms=jitter_ms(options, override, defaults),
        missed=missed_of(options.get("missed", "once")),
    )
    record.fingerprint = _fingerprint(record)
    skips = skips_of(options, options.get("timezone", core.timezone))
    return Definition(entry, record, policy, target, run_on_start, spec.per_process, skips)


_MEANT_FOR = {"cron": ("dst_gap", "dst_overlap"), "every": ("offset",)}
"""Options of the code that an override by another kind of timing takes the meaning of."""
_OVERRIDDEN = (
    *("enabled", "timezone", "dst_gap", "dst_overlap", "offset", "start", "end", "skip_on"),
    *("overlap", "missed", "expires"),
)


def _overridden(spec: ScheduleSpec, override: JobOverride | None, resolve: Callable[[Setting], Any]) -> ScheduleSpec:
    said = override.given() if override is not None else {}
    when: dict[str, Any] = {"cron": spec.cron, "every": spec.every, "at": spec.at}
    options: dict[str, Any] = dict(spec.options)
    if any(said.get(kind) is not None for kind in when):
        when = {kind: said.get(kind) for kind in when}
        for kind, names in _MEANT_FOR.items():
            if when[kind] is None:
                options = {name: value for name, value in options.items() if name not in names}
    options |= {name: said[name] for name in _OVERRIDDEN if name in said}
    return replace(spec, **resolved(when, resolve), options=resolved(options, resolve))


def _target(target: QueueTarget | None, name: str, default_queue: str) -> QueueTarget | None:
    if target is None:
        return None
    return QueueTarget(target.queue or default_queue, target.job or name, target.options)


def _facts(
    entry: ScheduleEntry, spec: ScheduleSpec, target: QueueTarget | None, run_on_start: str | None
) -> dict[str, str]:
    code = entry.code
    facts: dict[str, str] = {"method": code.attribute, "target": "queue" if target else "inline"}
    if code.owner is not None:
        facts["provider"] = code.owner.__name__
    if run_on_start:
        facts["run_on_start"] = run_on_start
    if spec.start_delay is not None:
        facts["start_delay_ms"] = str(duration_ms(spec.start_delay))
    if spec.per_process:
        facts["scope"] = "process"
    if callable(asked := spec.options.get("skip_on")):
        facts["skip_on"] = getattr(asked, "__qualname__", type(asked).__qualname__)
    if target is not None:
        facts |= {"target_queue": target.queue or "", "target_job": target.job or ""}
    return facts


def _fingerprint(record: ScheduleRecord) -> str:
    """What a restart compares: a change of it re-anchors the schedule."""
    defined = [record.timing, record.job.queue, record.overlap, record.jitter_ms, record.missed, record.enabled]
    if record.job.expires_after_ms is not None:
        defined.append(record.job.expires_after_ms)
    shown = [record.description, sorted(record.facts.items())]
    return hashlib.sha256(msgspec.json.encode([defined, shown])).hexdigest()[:32]


def to_queue(target: QueueTarget, enqueueing: Enqueueing) -> Callable[[JobRecord, object], Returned]:
    """What finishes a run whose return value is a payload for a queue."""

    def finish(run: JobRecord, value: object) -> Returned:
        limit = enqueueing.limits.of(target.queue or "")
        payload = encode_result(value, f"payload that {run.name} returned", limit=limit)
        job = enqueueing.bare(target.queue or "", target.job or "", payload, target.options, data=value)
        if "id" not in target.options:
            job.id = derived_id(run.id, 0)
        job.housekeeping = run.housekeeping
        enqueueing.seen(NewJob(JobType(job.name, object, object, queue=job.queue), value, target.options), job)
        return Returned(encode_result([job.id], f"result of {run.name}"), (job,))

    return finish
