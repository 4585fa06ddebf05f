"""`workfleet queues`: the group, `ls` and `show`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import click

from ..app.client import Client
from ..app.definitions import schedules_queue
from ..app.health import health_queue
from ..errors import NotFound
from ..model.durations import format_duration
from ..model.fleet import WorkerRecord
from ..model.jobs import READY, JobCounts
from ..model.limits import GroupLimits, QueueLimits, QueueRecord
from ..ports.exam import Finding
from ..ports.jobs import JobQuery
from ..queues.queues import QueueInfo
from .documents import queue_document
from .failures import tell
from .options import CONTEXT, Where, app_option, json_option
from .output import count, near, plain, write, write_facts, write_json, write_listing, write_table
from .project import Target, target_of, with_client
from .queue_actions import pause, purge, resume
from .worker_state import WorkerLife, lives_of

QUEUE_TITLES = (
    "QUEUE",
    ">WAITING",
    ">PRIORITIZED",
    ">DELAYED",
    ">RETRYING",
    ">ACTIVE",
    ">COMPLETED",
    ">FAILED",
    "STATE",
)
_LOOKED_AT = 1_000


@dataclass(frozen=True)
class _Seen:
    """What `show` tells of a queue."""

    info: QueueInfo
    now_ms: int
    workers: list[WorkerLife] = field(default_factory=list)
    groups: Counter[str] = field(default_factory=Counter)
    """Ready jobs by group, among the newest thousand."""


@dataclass(frozen=True)
class _Listened:
    """A queue, and who listens to it: our workers, and other programs' as they name themselves."""

    info: QueueInfo
    workers: list[str]
    others: tuple[str, ...]
    own: bool = False
    """Whether it is that of the health check, which claims its jobs itself."""

    def row(self) -> list[str]:
        said = [count(len(self.workers), "worker")] if self.workers else []
        said += [f"{len(self.others)} of BullMQ"] if self.others else []
        said += ["health check"] if self.own else []
        return [*queue_row(self.info), ", ".join(said) or "nobody"]

    def document(self) -> dict[str, Any]:
        return queue_document(self.info) | {"workers": self.workers, "others": list(self.others)}


@click.group("queues", context_settings=CONTEXT)
def queues() -> None:
    """The queues and their jobs by state; pause, resume and purge them.

    \b
    Examples:
      workfleet queues ls
      workfleet queues pause emails
    """


for command in (pause, resume, purge):
    queues.add_command(command)


@queues.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """Every queue, with how many jobs it has in each state, and who listens to it. `retrying` are delayed ones that
    have run before.

    \b
    Examples:
      workfleet queues ls
      workfleet queues ls --json | jq 'select(.failed > 0)'
    """
    target = target_of(where)
    found, warnings = with_client(target, lambda client: _listened(client, target))
    write_listing(
        found,
        document=_Listened.document if as_json else None,
        table=lambda: write_table((*QUEUE_TITLES, "LISTENING"), [each.row() for each in found]),
        nothing="no queues",
    )
    for each in warnings:
        tell(f"Warning: {plain(each.said)}. {plain(each.advice)}")
    return 0


@queues.command("show")
@click.argument("queue")
@json_option
@app_option
def show(*, where: Where, queue: str, as_json: bool) -> int:
    """One queue: its jobs by state, how long the first ready one waits, whether it is paused, its limits across the
    fleet, the groups that have ready jobs, and who listens to it.

    \b
    Examples:
      workfleet queues show emails
      workfleet queues show emails --json | jq .limits
    """
    target = target_of(where)
    seen = with_client(target, lambda client: _see(client, target, queue))
    if as_json:
        listening = [life.record.id for life in seen.workers if life.works]
        write_json(queue_document(seen.info) | {"workers": listening, "ready_groups": dict(seen.groups)})
    else:
        _write(seen)
    return 0


async def _listened(client: Client, target: Target) -> tuple[list[_Listened], list[Finding]]:
    store = await client.session.store()
    lives = lives_of(await store.fleet.workers(), await store.now_ms())
    working, strangers = [life.record for life in lives if life.works], await store.exam.strangers()
    checked = health_queue(target.app)
    listened = [
        _Listened(
            info,
            [each.id for each in working if _listens(each, info.name)],
            strangers.get(info.name, ()),
            own=info.name == checked,
        )
        for info in await all_queues(client, target)
    ]
    return listened, await store.exam.others()


async def all_queues(client: Client, target: Target) -> list[QueueInfo]:
    """Every queue that has or had jobs, that the application listens to, or about which something was said; by name."""
    store = await client.session.store()
    counts = {**known_queues(target), **await client.queues.list()}
    records = await store.queues.all()
    told = {name for name, record in records.items() if record.paused}
    return [_info(name, counts, records) for name in sorted(counts.keys() | told)]


def known_queues(target: Target) -> dict[str, JobCounts]:
    """The queues that the application listens to, without jobs."""
    if target.composition is None:
        return {}
    return {queue: JobCounts() for queue in (*target.composition.registry.concurrency, schedules_queue(target.app))}


def queue_row(info: QueueInfo) -> list[str]:
    """A row under `QUEUE_TITLES`."""
    counts = info.counts
    numbers = (
        counts.waiting,
        counts.prioritized,
        counts.delayed,
        counts.retrying,
        counts.active,
        counts.completed,
        counts.failed,
    )
    return [info.name, *map(str, numbers), "paused" if info.paused else ""]


def _info(name: str, counts: dict[str, JobCounts], records: dict[str, QueueRecord]) -> QueueInfo:
    record = records.get(name, QueueRecord())
    return QueueInfo(name, counts.get(name, JobCounts()), record.paused, record.limits)


async def _see(client: Client, target: Target, name: str) -> _Seen:
    store = await client.session.store()
    now = await store.now_ms()
    try:
        info = await client.queues.get(name)
    except NotFound:
        if name not in known_queues(target):
            raise
        info = QueueInfo(name, JobCounts())
    ready = await store.jobs.find(JobQuery(name, READY, limit=_LOOKED_AT))
    listening = [worker for worker in await store.fleet.workers() if _listens(worker, name)]
    return _Seen(info, now, lives_of(listening, now), Counter(job.group for job in ready))


def _listens(worker: WorkerRecord, queue: str) -> bool:
    return queue in worker.queues


def _write(seen: _Seen) -> None:
    info, counts = seen.info, seen.info.counts
    write_facts(
        [
            ("queue", info.name),
            ("state", "paused: `workfleet queues resume` ends it" if info.paused else "on"),
            ("oldest", f"ready {near(counts.oldest_ready_ms, seen.now_ms)}" if counts.oldest_ready_ms else ""),
            *_limits(info.limits),
            ("workers", ", ".join(map(str, seen.workers)) or "none listens to it"),
            ("groups", _groups(seen)),
        ]
    )
    write()
    write_table(QUEUE_TITLES, [queue_row(info)])


def _limits(limits: QueueLimits) -> list[tuple[str, str]]:
    named = [(f"group {plain(name)}", _said(limits.of_group(name))) for name in sorted(limits.groups)]
    return [
        ("limits", _said(GroupLimits(concurrency=limits.concurrency, rate=limits.rate))),
        ("each group", _said(limits.group)),
        *named,
    ]


def _said(limits: GroupLimits) -> str:
    parts = []
    if limits.concurrency is not None:
        parts.append(f"{limits.concurrency} at once")
    if limits.rate is not None:
        parts.append(f"{limits.rate.limit} in {format_duration(limits.rate.per_ms)}")
    if limits.weight != 1:
        parts.append(f"{limits.weight} in a turn")
    return ", ".join(parts)


def _groups(seen: _Seen) -> str:
    if not any(seen.groups):
        return ""
    among = f" (among the newest {_LOOKED_AT:,} ready ones)" if seen.groups.total() >= _LOOKED_AT else ""
    return ", ".join(f"{name or '(none)'} {number}" for name, number in sorted(seen.groups.items())) + among
