"""How `jobs show` shows a job to a person."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from ..model.durations import format_duration
from ..model.jobs import FINISHED, JobRecord, JobState, KeepRule
from ..model.policy import Backoff
from .job_timeline import timeline
from .json_page import readable
from .output import at, indented, near, write, write_facts
from .summary import reason


def write_job(job: JobRecord, logs: list[str], waits: list[str], now_ms: int) -> None:
    """Facts, what it waits for, payload, options, timeline, the last failure, logs, progress and result; what a job
    does not have is left out."""
    write_facts(_facts(job, now_ms))
    _section("waits for", "\n".join(waits))
    _section("payload", readable(job.payload))
    _section("options", "\n".join(f"{name} {value}" for name, value in _options(job)))
    _section("timeline", "\n".join(timeline(job, now_ms)))
    if job.failure is not None:
        # A message of several lines is in the traceback too, where there is one.
        several = job.failure.message if "\n" in job.failure.message else ""
        _section("traceback" if job.failure.traceback else "message", job.failure.traceback.rstrip() or several)
    _section("logs", "\n".join(logs))
    _section("progress", "" if job.progress is None else readable(job.progress))
    _section("result", "" if job.result is None else readable(job.result))


def _section(title: str, text: str) -> None:
    if text:
        write()
        write(title)
        write(indented(text))


def _facts(job: JobRecord, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "job", job.id
    yield "name", job.name
    yield "queue", job.queue
    yield "state", _state(job)
    yield "failure", reason(job) if job.failure else ""
    yield "attempts", _attempts(job)
    yield "worker", f"{job.worker}, lease ends {near(job.lease_until_ms, now_ms)}" if job.worker else ""
    yield "schedule", job.schedule or ""
    yield "slot", at(job.slot_ms)
    yield "group", job.group
    yield "tags", ", ".join(job.tags)
    yield "metadata", ", ".join(f"{name}={value}" for name, value in job.metadata.items())
    yield "trace", job.trace or ""


def _state(job: JobRecord) -> str:
    # While it runs, the outcome is that of the run before: the timeline has it.
    outcome = None if job.state is JobState.ACTIVE or job.outcome == job.state.value else job.outcome
    notes = [*filter(None, [outcome]), *(["parked"] if job.parked else [])]
    if job.cancel_asked and job.state not in FINISHED:
        notes.append("is to be cancelled")
    return f"{job.state.value} ({', '.join(notes)})" if notes else job.state.value


def _attempts(job: JobRecord) -> str:
    counted = {"crashed": job.crashes, "deferred": job.deferrals, "tried apart": job.suspicions}
    return ", ".join([f"{job.attempts_made} made", *(f"{number} {what}" for what, number in counted.items() if number)])


def _options(job: JobRecord) -> Iterator[tuple[str, str]]:
    """What was said of this very job; the rest is its handler's."""
    run = job.run
    if run.attempts is not UNSET:
        yield "attempts", str(run.attempts)
    if run.backoff is not UNSET:
        yield "backoff", _backoff(run.backoff)
    if run.timeout_ms is not UNSET:
        yield "timeout", "none" if run.timeout_ms is None else format_duration(run.timeout_ms)
    for name, backoff in ({} if run.rules is UNSET else run.rules).items():
        yield f"retry {name}", "not" if backoff is None else _backoff(backoff)
    if job.priority:
        yield "priority", str(job.priority)
    if job.lifo:
        yield "lifo", "last in first out"
    if job.delay_ms:
        yield "delay", format_duration(job.delay_ms)
    if job.expires_ms is not None:
        yield "expires", at(job.expires_ms)
    if job.unique_key is not None:
        yield "unique", f"{job.unique_key!r}, {_unique(job)}"
    for state, rule in ((JobState.COMPLETED, job.keep.completed), (JobState.FAILED, job.keep.failed)):
        if rule is not None:
            yield f"kept when {state.value}", _kept(rule)


def _backoff(backoff: Backoff | None) -> str:
    if backoff is None:
        return "none"
    if backoff.kind == "own":
        return f"own function {backoff.name}"
    capped = f" up to {format_duration(backoff.cap_ms)}" if backoff.kind != "fixed" else ""
    return f"{backoff.kind} from {format_duration(backoff.first_ms)}{capped}, jitter {backoff.jitter}"


def _unique(job: JobRecord) -> str:
    rule = job.unique
    how_long = f"for {format_duration(rule.window_ms)}" if rule.window_ms else f"until {rule.until}"
    newcomer = "" if rule.on_conflict == "keep" else f", {rule.on_conflict} on conflict"
    return f"{how_long}{newcomer}{', one runs and one waits' if rule.exclusive else ''}"


def _kept(rule: KeepRule) -> str:
    limits = [
        "" if rule.age_ms is None else f"for {format_duration(rule.age_ms)}",
        "" if rule.count is None else f"among the newest {rule.count:,}",
    ]
    return ", ".join(filter(None, limits)) or "for ever"
