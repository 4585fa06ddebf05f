"""`workfleet schedules ls|next|run|remove`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..app.loops import run_loop
from ..errors import NotFound, UsageError
from ..model.schedules import ScheduleRecord
from ..schedules.schedules import ScheduleInfo, Triggered
from .asking import agreed, asking_options
from .documents import schedule_document
from .failures import tell
from .options import CONTEXT, Where, app_option, json_option
from .output import at, near, write, write_json, write_listing, write_table
from .project import Target, opened, target_of, with_client
from .upcoming import Slot, upcoming, when

_SLOT_TITLES = ("DUE", "LOCAL", "IN", "SCHEDULE", "NOTE")
_TITLES = ("NAME", "WHEN", "NEXT", "LAST", ">FIRED", "STATE", "DOES")


@click.group("schedules", context_settings=CONTEXT)
def schedules() -> None:
    """List schedules, preview, trigger and remove them.

    \b
    Examples:
      workfleet schedules ls
      workfleet schedules next -n 20
    """


@schedules.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """Every schedule of the store: when it is due, when it ran last, what it does. Instants are in UTC.

    \b
    Examples:
      workfleet schedules ls
      workfleet schedules ls --json | jq 'select(.orphaned)'
    """
    target = target_of(where)
    found, records = run_loop(lambda: _list(target))
    by_name = {record.name: record for record in records}
    write_listing(
        found,
        document=schedule_document if as_json else None,
        table=lambda: write_table(_TITLES, [_row(info, by_name[info.name]) for info in found if info.name in by_name]),
        nothing="no schedules",
    )
    return 0


@schedules.command("next")
@click.argument("name", required=False)
@click.option(
    "-n", "wanted", metavar="N", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many."
)
@json_option
@app_option
def next_(*, where: Where, name: str | None, wanted: int, as_json: bool) -> int:
    """The next fires of all schedules, or of one: in UTC, on the wall clock, and what daylight saving does to them.

    \b
    Examples:
      workfleet schedules next
      workfleet schedules next Cleanup.nightly -n 5
    """
    target = target_of(where)
    records, now = run_loop(lambda: _records(target))
    slots = upcoming(_chosen(records, name), wanted)
    write_listing(
        slots,
        document=Slot.document if as_json else None,
        table=lambda: write_table(_SLOT_TITLES, [_slot_row(slot, now) for slot in slots]),
        nothing="nothing is due",
    )
    return 0


@schedules.command("run")
@click.argument("name")
@json_option
@app_option
def run(*, where: Where, name: str, as_json: bool) -> int:
    """Run a schedule now, beside its slots, and print the job's id. A worker runs the job.

    Exits 1 with the reason when it is refused: disabled, orphaned, or running already.

    \b
    Example:
      workfleet schedules run Cleanup.nightly
    """
    target = target_of(where)
    triggered = run_loop(lambda: _trigger(target, name))
    job = triggered.ref.id if triggered.ref is not None else None
    if as_json:
        write_json({"schedule": name, "accepted": triggered.accepted, "job": job, "reason": triggered.reason})
    elif job is not None:
        write(job)
    else:
        tell(f"not run: {triggered.reason}")
    return 0 if triggered.accepted else 1


@schedules.command("remove")
@click.argument("name")
@asking_options
@app_option
def remove(*, where: Where, name: str, dry_run: bool, yes: bool) -> int:
    """Delete a schedule that was added at run time, or an orphaned one that no code defines any more. Its queued jobs
    stay. One that code defines is removed there, or paused here.

    \b
    Example:
      workfleet schedules remove report:acme
    """
    target = target_of(where)
    records, _ = run_loop(lambda: _records(target))
    _check_removable(_chosen(records, name)[0])
    if dry_run:
        write(f"{name} would be removed")
        return 0
    if not agreed(f"Remove the schedule {name}?", yes=yes):
        return 1
    removed = with_client(target, lambda client: client.schedules.remove(name))
    write(f"{name} is removed" if removed else f"{name} was removed meanwhile")
    return 0


def _row(info: ScheduleInfo, record: ScheduleRecord) -> list[str]:
    does = f"{info.queue_job} on {info.queue}" if info.target == "queue" else info.method or ""
    due = record.next_due_ms if info.next_due is not None and not info.paused else None
    return [info.name, when(record), at(due), at(record.last_slot_ms), str(info.fired), _state(info), does]


def _state(info: ScheduleInfo) -> str:
    words = {
        "orphaned": info.orphaned,
        "disabled": not info.enabled,
        "paused": info.paused,
        "running": info.running,
    }
    return ", ".join(word for word, holds in words.items() if holds) or "on"


def _slot_row(slot: Slot, now_ms: int) -> list[str]:
    return [at(slot.at_ms), slot.local, near(slot.at_ms, now_ms), slot.schedule, slot.note or ""]


def _chosen(records: Sequence[ScheduleRecord], name: str | None) -> Sequence[ScheduleRecord]:
    chosen = [record for record in records if name is None or record.name == name]
    if name is not None and not chosen:
        known = ", ".join(record.name for record in records) or "none"
        raise NotFound(f"there is no schedule {name!r}. Known schedules: {known}")
    return chosen


def _check_removable(record: ScheduleRecord) -> None:
    if record.from_code and not record.orphaned:
        raise UsageError(f"the schedule {record.name!r} is defined in code: remove it there, or it would be back")


async def _list(target: Target) -> tuple[list[ScheduleInfo], list[ScheduleRecord]]:
    async with opened(target) as client:
        store = await client.session.store()
        return await client.schedules.list(), await store.schedules.all()


async def _records(target: Target) -> tuple[list[ScheduleRecord], int]:
    async with opened(target) as client:
        store = await client.session.store()
        return await store.schedules.all(), await store.now_ms()


async def _trigger(target: Target, name: str) -> Triggered:
    async with opened(target) as client:
        return await client.schedules.trigger(name)
