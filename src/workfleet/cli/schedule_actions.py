"""`workfleet schedules run|pause|resume|remove`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..app.client import Client
from ..errors import UsageError
from ..model.schedules import ScheduleRecord
from .asking import agreed, asking_options
from .failures import tell
from .options import Where, app_option, json_option
from .output import plain, write, write_done, write_json
from .project import target_of, with_client
from .schedule_records import the_schedules


@click.command("run")
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
    triggered = with_client(target_of(where), lambda client: client.schedules.trigger(name))
    job = triggered.ref.id if triggered.ref is not None else None
    if as_json:
        write_json({"schedule": name, "accepted": triggered.accepted, "job": job, "reason": triggered.reason})
    elif job is not None:
        write(job)
    else:
        tell(f"not run: {triggered.reason}")
    return 0 if triggered.accepted else 1


@click.command("pause")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@app_option
def pause(*, where: Where, names: tuple[str, ...], as_json: bool) -> int:
    """Fire schedules no more, in the whole fleet, until `resume`. A run under way goes on, and `run` still works.

    \b
    Examples:
      workfleet schedules pause Cleanup.nightly
      workfleet schedules pause report:acme report:bolt
    """
    paused = with_client(target_of(where), lambda client: _pause(client, names))
    for record in paused:
        said = f"{plain(record.name)} {'was paused already' if record.paused else 'is paused'}"
        document = {"action": "pause", "schedule": record.name, "changed": not record.paused}
        write_done(document, said, as_json=as_json)
    return 0


@click.command("resume")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@app_option
def resume(*, where: Where, names: tuple[str, ...], as_json: bool) -> int:
    """Fire paused schedules again. Slots that passed meanwhile are missed ones: the schedule's policy says what becomes
    of them.

    \b
    Example:
      workfleet schedules resume Cleanup.nightly
    """
    resumed = with_client(target_of(where), lambda client: _resume(client, names))
    for record in resumed:
        said = f"{plain(record.name)} {'is on again' if record.paused else 'was not paused'}"
        document = {"action": "resume", "schedule": record.name, "changed": record.paused}
        write_done(document, said, as_json=as_json)
    return 0


@click.command("remove")
@click.argument("name")
@asking_options
@json_option
@app_option
def remove(*, where: Where, name: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete a schedule that was added at run time, or an orphaned one that no code defines any more. Its queued jobs
    stay. One that code defines is removed there, or paused here.

    \b
    Example:
      workfleet schedules remove report:acme
    """
    target = target_of(where)
    (record,) = with_client(target, lambda client: the_schedules(client, [name]))
    if record.from_code and not record.orphaned:
        raise UsageError(f"the schedule {name!r} is defined in code: remove it there, or it would be back")
    document = {"action": "remove", "dry_run": dry_run, "schedule": name}
    if dry_run:
        write_done({**document, "done": False}, f"{plain(name)} would be removed", as_json=as_json)
        return 0
    if not agreed(f"Remove the schedule {plain(name)}?", yes=yes):
        return 1
    removed = with_client(target, lambda client: client.schedules.remove(name))
    said = f"{plain(name)} is removed" if removed else f"{plain(name)} was removed meanwhile"
    write_done({**document, "done": removed}, said, as_json=as_json)
    return 0


async def _pause(client: Client, names: Sequence[str]) -> list[ScheduleRecord]:
    """Pause them. Returns what they were before."""
    before = await the_schedules(client, names)
    for record in before:
        await client.schedules.pause(record.name)
    return before


async def _resume(client: Client, names: Sequence[str]) -> list[ScheduleRecord]:
    """Resume them. Returns what they were before."""
    before = await the_schedules(client, names)
    for record in before:
        await client.schedules.resume(record.name)
    return before
