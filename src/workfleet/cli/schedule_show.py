"""`workfleet schedules show`: everything about one schedule."""

from __future__ import annotations

from typing import Any

import click
from msgspec import to_builtins

from ..app.client import Client
from ..model.durations import format_duration
from ..model.jobs import RunOverrides
from ..model.policy import Backoff
from ..model.schedules import ScheduleRecord, SlotNote
from ..schedules.history import PastRun
from ..schedules.info import ScheduleInfo
from .documents import instant, schedule_document, stored
from .options import Where, app_option, json_option
from .output import at, near, rough, write, write_facts, write_json, write_table
from .project import target_of, with_client
from .schedule_history import run_document
from .schedule_records import OVERDUE_MS, state_of, the_schedules
from .summary import in_a_line
from .upcoming import SLOT_TITLES, upcoming, when

_NOTE_TITLES = ("SLOT", "WAS", ">SLOTS", "FOUND", "BECAUSE")
_LOOKED_AT = 20
"""Rows of its history among which its last run is looked for: others are of slots that made none."""


@click.command("show")
@click.argument("name")
@click.option(
    "-n", "wanted", metavar="N", type=click.IntRange(0, 100_000), default=5, show_default=True, help="How many fires."
)
@json_option
@app_option
def show(*, where: Where, name: str, wanted: int, as_json: bool) -> int:
    """One schedule: when it is due, its options, what it runs, its state and counts, how its last run ended, and its
    next fires.

    \b
    Examples:
      workfleet schedules show Cleanup.nightly
      workfleet schedules show report:acme --json | jq .next
    """
    info, record, last_run, now = with_client(target_of(where), lambda client: _get(client, name))
    slots = upcoming([record], wanted)
    if as_json:
        own = {"options": to_builtins(record.job.run), **stored("payload", record.job.payload)}
        last: dict[str, Any] = {"last_fired": instant(record.last_fired_ms), "last_job": record.last_job_id}
        last["last_run"] = None if last_run is None else run_document(last_run)
        notes = [_note_document(note) for note in reversed(record.notes)]
        next_ = [slot.document() for slot in slots]
        write_json({**schedule_document(info), **last, **own, "notes": notes, "next": next_})
        return 0
    _write(info, record, last_run, now)
    if record.notes:
        write()
        write_table(_NOTE_TITLES, [_note_row(note, now) for note in reversed(record.notes)])
    if slots:
        write()
        write_table(SLOT_TITLES, [slot.row(now) for slot in slots])
    return 0


def _note_row(note: SlotNote, now_ms: int) -> list[str]:
    return [at(note.slot_ms), note.status, str(note.count), near(note.at_ms, now_ms), note.reason]


def _note_document(note: SlotNote) -> dict[str, Any]:
    return {
        "slot": instant(note.slot_ms),
        "status": note.status,
        "count": note.count,
        "found": instant(note.at_ms),
        "reason": note.reason,
    }


async def _get(client: Client, name: str) -> tuple[ScheduleInfo, ScheduleRecord, PastRun | None, int]:
    store = await client.session.store()
    (record,) = await the_schedules(client, [name])
    past = await client.schedules.history(name, limit=_LOOKED_AT)
    last_run = next((run for run in past if run.started is not None), None)
    return await client.schedules.get(name), record, last_run, await store.now_ms()


def _write(info: ScheduleInfo, record: ScheduleRecord, last_run: PastRun | None, now_ms: int) -> None:
    overdue_ms = 0 if info.overdue is None else int(info.overdue.total_seconds() * 1000)
    due_ms = None if info.next_due is None or info.paused else record.next_due_ms
    write_facts(
        [
            ("schedule", info.name),
            ("about", info.description),
            ("state", state_of(info)),
            ("defined", "in code" if info.from_code else "at run time"),
            ("does", _does(info)),
            ("payload", "" if info.from_code else record.job.payload.decode(errors="backslashreplace")),
            ("when", when(record)),
            ("clock change", f"dst_gap {info.dst_gap}, dst_overlap {info.dst_overlap}" if info.cron else ""),
            ("not on", ", ".join(info.skip_on)),
            ("jitter", f"up to {info.jitter}" if info.jitter else ""),
            ("overlap", info.overlap),
            ("missed", info.missed_policy),
            ("expires", f"when it has waited {info.expires}" if info.expires else ""),
            ("on start", f"once per {info.run_on_start}" if info.run_on_start else ""),
            ("runs", _runs(record.job.run)),
            ("next", f"{at(due_ms)}, {near(due_ms, now_ms)}" if due_ms is not None else ""),
            ("overdue", f"by {rough(overdue_ms)}" if overdue_ms > OVERDUE_MS else ""),
            ("last", _last(record, now_ms)),
            ("last run", "" if last_run is None else _ran(last_run, now_ms)),
            ("counts", ", ".join(f"{name} {number}" for name, number in _counts(info).items())),
        ]
    )


def _counts(info: ScheduleInfo) -> dict[str, int]:
    rare = {"skipped": info.skipped, "coalesced": info.coalesced, "missed": info.missed, "late": info.late}
    return {"fired": info.fired, **{name: number for name, number in rare.items() if number}}


def _does(info: ScheduleInfo) -> str:
    if info.target == "queue":
        return f"job {info.queue_job} on queue {info.queue}"
    return f"{info.provider}.{info.method}" if info.provider else info.method or ""


def _runs(run: RunOverrides) -> str:
    """What a schedule that was added at run time says of its runs."""
    parts = [f"attempts {run.attempts}"] if isinstance(run.attempts, int) else []
    if isinstance(run.backoff, Backoff):
        parts.append(f"backoff {run.backoff.kind} {format_duration(run.backoff.first_ms)}")
    if run.timeout_ms is None or isinstance(run.timeout_ms, int):
        parts.append("no timeout" if run.timeout_ms is None else f"timeout {format_duration(run.timeout_ms)}")
    rules = run.rules if isinstance(run.rules, dict) else {}
    parts += [f"after {name} {_rule(rule)}" for name, rule in rules.items()]
    return ", ".join(parts)


def _rule(rule: Backoff | None) -> str:
    return "no retry" if rule is None else f"{rule.kind} {format_duration(rule.first_ms)}"


def _ran(run: PastRun, now_ms: int) -> str:
    """How the latest attempt ended, whichever slot it was of: fired is not done."""
    at_ms = round(run.at.timestamp() * 1000)
    attempt = f" (attempt {run.attempt})" if run.attempt not in (None, 1) else ""
    why = f": {in_a_line(run.error)}" if run.error else ""
    return f"{run.outcome}{attempt} {near(at_ms, now_ms)}{why}"


def _last(record: ScheduleRecord, now_ms: int) -> str:
    if record.last_slot_ms is None:
        return ""
    job = f", job {record.last_job_id}" if record.last_outcome in ("fired", "late") and record.last_job_id else ""
    why = f": {record.last_reason}" if record.last_reason else ""
    return f"{at(record.last_slot_ms)}, {near(record.last_slot_ms, now_ms)}, {record.last_outcome}{job}{why}"
