"""`workfleet queues ls`."""

from __future__ import annotations

import click

from ..app.definitions import schedules_queue
from ..app.loops import run_loop
from ..model.jobs import JobCounts
from .documents import counts_document
from .options import CONTEXT, Where, app_option, json_option
from .output import write, write_json, write_table
from .project import Target, opened, target_of

QUEUE_TITLES = ("QUEUE", ">WAITING", ">PRIORITIZED", ">DELAYED", ">RETRYING", ">ACTIVE", ">COMPLETED", ">FAILED")


@click.group("queues", context_settings=CONTEXT)
def queues() -> None:
    """The queues and their jobs by state.

    \b
    Example:
      workfleet queues ls
    """


@queues.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """Every queue, with how many jobs it has in each state. `retrying` are delayed ones that have run before.

    \b
    Examples:
      workfleet queues ls
      workfleet queues ls --json | jq 'select(.failed > 0)'
    """
    target = target_of(where)
    counts = run_loop(lambda: _counts(target))
    if as_json:
        for queue, of in counts.items():
            write_json(counts_document(queue, of))
    elif counts:
        write_table(QUEUE_TITLES, map(queue_row, counts.keys(), counts.values()))
    else:
        write("no queues")
    return 0


def known_queues(target: Target) -> dict[str, JobCounts]:
    """The queues that the application listens to, without jobs."""
    if target.composition is None:
        return {}
    return {queue: JobCounts() for queue in (*target.composition.registry.concurrency, schedules_queue(target.app))}


def queue_row(queue: str, counts: JobCounts) -> list[str]:
    """A row under `QUEUE_TITLES`."""
    numbers = (
        counts.waiting,
        counts.prioritized,
        counts.delayed,
        counts.retrying,
        counts.active,
        counts.completed,
        counts.failed,
    )
    return [queue, *map(str, numbers)]


async def _counts(target: Target) -> dict[str, JobCounts]:
    async with opened(target) as client:
        return dict(sorted({**known_queues(target), **await client.queues.list()}.items()))
