"""A schedule that is added at run time: it holds a job, never a function, and what it says can be stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from workfleet.enqueueing import Enqueueing
from workfleet.errors import UsageError
from workfleet.model.checks import run_overrides
from workfleet.model.durations import DurationLike, duration_ms
from workfleet.model.jobtypes import NewJob
from workfleet.model.missed import missed_of
from workfleet.model.options import RunOptions, ScheduleOptions
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Manual

from .declare import check_options, expires_ms, timing_by

RUNTIME_OPTIONS = frozenset(ScheduleOptions.__optional_keys__ - {"run_on_start", "pool", "on_timeout"})
"""What a schedule may say that is added at run time; the others are its handler's."""

_LONGEST_NAME = 200
"""As of a queue: listings and keys have it."""


def runtime_record(
    name: str,
    job: NewJob[Any],
    options: ScheduleOptions,
    *,
    cron: str | None,
    every: DurationLike | None,
    at: datetime | None,
    timezone: str,
    enqueueing: Enqueueing,
    fingerprint: str,
) -> ScheduleRecord:
    """The record of a schedule as it was asked for, not anchored yet. `timezone` is where it is local unless it names
    its own. Raises UsageError for what makes no sense, and PayloadRejected."""
    template = enqueueing.record(job)
    template.trace = None  # what adds it is over long before it fires
    try:
        _check(name, job, options)
        template.run = run_overrides(cast(RunOptions, {**job.options, **options}))
        template.expires_after_ms = expires_ms(options.get("expires")) or template.expires_after_ms
        when = timing_by(options, name, cron, every, at, default_timezone=timezone)
        jitter = options.get("jitter")
        jitter_ms = duration_ms(jitter) if jitter is not None else 0
        missed = missed_of(options.get("missed", "once"))
    except ValueError as error:
        shown = repr(name) if len(name) <= _LONGEST_NAME else f"{name[:20]!r}…"
        raise UsageError(f"schedule {shown}: {error}") from None
    if isinstance(when, Manual):
        raise UsageError(f"schedule {name!r}: give one of cron=, every= and at=")
    return ScheduleRecord(
        name=name,
        timing=when,
        fingerprint=fingerprint,
        job=template,
        description=options.get("description", ""),
        facts={"target": "queue"},
        enabled=options.get("enabled", True) is True,
        overlap=options.get("overlap", "skip"),
        jitter_ms=jitter_ms,
        missed=missed,
        from_code=False,
    )


def _check(name: str, job: NewJob[Any], options: ScheduleOptions) -> None:
    """Raise ValueError for what makes no sense in a schedule that is added at run time."""
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError("a name is printable text that is neither empty nor padded")
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"a name has at most {_LONGEST_NAME} characters")
    for option in options:
        if option not in RUNTIME_OPTIONS:
            raise ValueError(f"the option {option!r} is not for schedules that are added at run time")
    check_options(options)
    if callable(options.get("skip_on")):
        raise ValueError("skip_on= is dates here: a function cannot be stored")
    if not isinstance(options.get("enabled", True), bool):
        raise ValueError(f"enabled={options.get('enabled')!r}: it is True or False")
    for key in ("id", "at"):
        if key in job.options:
            raise ValueError(f"its job has {key}=, which no two runs can share: leave it out")
    if isinstance(job.options.get("expires"), datetime):
        raise ValueError("its job has expires= at an instant, which no two runs can share: give a duration")
    after_ms, delay = expires_ms(options.get("expires")), job.options.get("delay")
    if after_ms is not None and delay is not None and after_ms <= duration_ms(delay):
        raise ValueError(f"expires={options['expires']!r} is not after its job's delay={delay!r}: no run would start")
    overlap = options.get("overlap", "skip")
    if "unique" in job.options and overlap != "allow":
        raise ValueError(
            f'its job has unique=, which overlap="{overlap}" does already: leave it out, or say overlap="allow"'
        )
