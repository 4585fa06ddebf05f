"""`workfleet workers ls|quiet|stop|recycle`: the worker processes of the fleet, on all its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from ..app.client import Client
from ..errors import NotFound, UsageError
from ..model.fleet import Instruction
from .asking import agreed, asking_options
from .documents import worker_document
from .options import CONTEXT, Command, Where, app_option, json_option
from .output import count, near, write, write_json, write_listing, write_table
from .project import target_of, with_client
from .worker_state import WorkerLife, lives_of, seen

_TITLES = ("ID", "HOST", ">PROCESS", "STATE", ">ACTIVE", "SEEN", "STARTED", "RELEASE", "QUEUES")


@dataclass(frozen=True)
class _Told:
    """What a worker is told, and how it is said: "3 workers …"."""

    action: str
    instruction: Instruction | None
    question: str
    said: str


_FINAL = ("stop", "recycle")
_QUIET = _Told("quiet", "quiet", "Quiet", "told to claim no more jobs")
_UNDO = _Told("undo", None, "Undo the instruction of", "told to go on")
_STOP = _Told("stop", "stop", "Stop", "told to let their jobs end, and to stop")
_RECYCLE = _Told("recycle", "recycle", "Recycle", "told to let their jobs end, and to be started anew")


@click.group("workers", context_settings=CONTEXT)
def workers() -> None:
    """List the worker processes of the fleet, and quiet, stop or recycle them.

    A worker hears of it at its next sign of life, within WORKER_POLL (10 s).

    \b
    Examples:
      workfleet workers ls
      workfleet workers recycle --all
    """


@workers.command("ls")
@json_option
@app_option
def ls(*, where: Where, as_json: bool) -> int:
    """Every worker that the store knows. STATE is on, or what it was told; silent: nothing was heard of it for three
    signs of life; gone: its process does not run any more (seen on its own machine only).

    \b
    Examples:
      workfleet workers ls
      workfleet workers ls --json | jq -r 'select(.state == "silent") | .id'
    """
    found, now = with_client(target_of(where), _lives)
    write_listing(
        found,
        document=(lambda life: worker_document(life.record, life.state)) if as_json else None,
        table=lambda: write_table(_TITLES, [_row(life, now) for life in found]),
        nothing="no workers",
    )
    return 0


def _options(command: Command) -> Command:
    ids = click.argument("ids", metavar="[ID]...", nargs=-1)
    everybody = click.option("--all", "everybody", is_flag=True, help="Every worker of the fleet.")
    return ids(everybody(asking_options(json_option(app_option(command)))))


@workers.command("quiet")
@click.option("--undo", is_flag=True, help="Take back what they were told, so that they claim again.")
@_options
def quiet(
    *, where: Where, ids: tuple[str, ...], everybody: bool, undo: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Let workers claim no more jobs; what they run goes on. --undo ends it.

    \b
    Examples:
      workfleet workers quiet web-1-4711-0-5d1c
      workfleet workers quiet --undo --all --yes
    """
    return _tell(where, ids, _UNDO if undo else _QUIET, everybody=everybody, dry_run=dry_run, yes=yes, as_json=as_json)


@workers.command("stop")
@_options
def stop(*, where: Where, ids: tuple[str, ...], everybody: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Let workers end: their jobs have WORKER_SHUTDOWN_TIMEOUT to finish, the rest is given back.

    \b
    Example:
      workfleet workers stop web-1-4711-0-5d1c
    """
    return _tell(where, ids, _STOP, everybody=everybody, dry_run=dry_run, yes=yes, as_json=as_json)


@workers.command("recycle")
@_options
def recycle(*, where: Where, ids: tuple[str, ...], everybody: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Have workers started anew by their supervisors: their jobs have WORKER_SHUTDOWN_TIMEOUT to finish.

    \b
    Example:
      workfleet workers recycle --all
    """
    return _tell(where, ids, _RECYCLE, everybody=everybody, dry_run=dry_run, yes=yes, as_json=as_json)


def _tell(
    where: Where, ids: tuple[str, ...], told: _Told, *, everybody: bool, dry_run: bool, yes: bool, as_json: bool
) -> int:
    if bool(ids) == everybody:
        raise UsageError("say which workers: their ids, or --all")
    target = target_of(where)
    found, _ = with_client(target, _lives)
    wanted = list(dict.fromkeys(ids)) or [life.record.id for life in found if life.works]
    if missing := [one for one in wanted if one not in {life.record.id for life in found}]:
        known = ", ".join(life.record.id for life in found) or "none"
        raise NotFound(f"there is no worker {', '.join(missing)}. Known workers: {known}. Nothing was done")
    ending = [life.record.id for life in found if life.record.id in wanted and life.record.instruction in _FINAL]
    if told.instruction not in _FINAL and ending:
        if ids:
            raise UsageError(f"{', '.join(ending)} was told to end already, and that cannot be taken back")
        wanted = [one for one in wanted if one not in ending]
    if not wanted:
        return _say(told, {}, "no workers", dry_run=dry_run, as_json=as_json)
    if dry_run:
        would = f"{count(len(wanted), 'worker')} would be {told.said}"
        return _say(told, dict.fromkeys(wanted, False), would, dry_run=True, as_json=as_json)
    question = f"{told.question} {count(len(wanted), 'worker')}, all that the store knows?"
    if everybody and not agreed(question, yes=yes):
        return 1
    done = with_client(target, lambda client: _send(client, wanted, told.instruction))
    _say(told, done, f"{count(sum(done.values()), 'worker')} {told.said}", dry_run=False, as_json=as_json)
    return 0 if all(done.values()) else 1


def _say(told: _Told, done: Mapping[str, bool], said: str, *, dry_run: bool, as_json: bool) -> int:
    """A document for each worker, with whether the store knew it still, or a line for all."""
    if not as_json:
        write(said)
        return 0
    for worker, heard in done.items():
        write_json({"action": told.action, "dry_run": dry_run, "worker": worker, "done": heard})
    return 0


def _row(life: WorkerLife, now_ms: int) -> list[str]:
    worker = life.record
    return [
        worker.id,
        worker.identity.host,
        str(worker.identity.pid),
        life.state,
        str(worker.active),
        seen(life, now_ms),
        near(worker.started_ms, now_ms),
        worker.release,
        ", ".join(worker.queues),
    ]


async def _lives(client: Client) -> tuple[list[WorkerLife], int]:
    store = await client.session.store()
    now = await store.now_ms()
    return lives_of(await store.fleet.workers(), now), now


async def _send(client: Client, ids: Sequence[str], instruction: Instruction | None) -> dict[str, bool]:
    store = await client.session.store()
    return {worker: await store.fleet.instruct(worker, instruction) for worker in ids}
