"""`workfleet queues pause|resume|purge`."""

from __future__ import annotations

import click

from ..app.client import Client
from ..model.jobs import JobCounts, JobState
from ..queues.queues import PURGED
from .asking import agreed, asking_options
from .failures import tell
from .options import Where, app_option, json_option
from .output import count, write_done
from .project import target_of, with_client

_STATES = click.Choice([state.value for state in JobState if state is not JobState.ACTIVE])


@click.command("pause")
@click.argument("queue")
@json_option
@app_option
def pause(*, where: Where, queue: str, as_json: bool) -> int:
    """Start no more jobs of a queue, in the whole fleet, until `resume`. What runs goes on, and jobs can be enqueued.

    \b
    Example:
      workfleet queues pause emails
    """
    changed, known = with_client(target_of(where), lambda client: _pause(client, queue))
    said = f"{queue} is paused" if changed else f"{queue} was paused already"
    write_done({"action": "pause", "queue": queue, "changed": changed}, said, as_json=as_json)
    if not known:
        tell(f"{queue} has had no job yet: is the name right?")
    return 0


@click.command("resume")
@click.argument("queue")
@json_option
@app_option
def resume(*, where: Where, queue: str, as_json: bool) -> int:
    """Start jobs of a paused queue again, at once.

    \b
    Example:
      workfleet queues resume emails
    """
    changed = with_client(target_of(where), lambda client: client.queues.resume(queue))
    said = f"{queue} is on again" if changed else f"{queue} was not paused"
    write_done({"action": "resume", "queue": queue, "changed": changed}, said, as_json=as_json)
    return 0


@click.command("purge")
@click.argument("queue")
@click.option("--state", "states", multiple=True, type=_STATES, help="Only these. (waiting, delayed, prioritized)")
@asking_options
@json_option
@app_option
def purge(*, where: Where, queue: str, states: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete jobs of a queue: those that have not begun, or those in the states that are given. It cannot be undone.

    \b
    Examples:
      workfleet queues purge emails --dry-run
      workfleet queues purge emails --state failed --yes
    """
    target, wanted = target_of(where), tuple(map(JobState, states)) or PURGED
    info = with_client(target, lambda client: client.queues.get(queue))
    matched = sum(_in_state(info.counts, state) for state in wanted)
    what = f"{count(matched, 'job')} of {queue} ({', '.join(wanted)})"
    document = {"action": "purge", "dry_run": dry_run, "queue": queue, "states": [state.value for state in wanted]}
    if dry_run:
        write_done({**document, "matched": matched}, f"{what} would be deleted", as_json=as_json)
        return 0
    if matched and not agreed(f"Delete {what}?", yes=yes):
        return 1
    deleted = with_client(target, lambda client: client.queues.purge(queue, states=wanted)) if matched else 0
    write_done({**document, "done": deleted}, f"{count(deleted, 'job')} deleted", as_json=as_json)
    return 0


def _in_state(counts: JobCounts, state: JobState) -> int:
    number = getattr(counts, state.value.replace("-", "_"))
    assert isinstance(number, int)
    return number


async def _pause(client: Client, queue: str) -> tuple[bool, bool]:
    known = queue in await client.queues.list()
    return await client.queues.pause(queue), known
