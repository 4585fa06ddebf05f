"""`workfleet jobs retry|cancel|delete|promote`: by ids, or all that match filters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps

import click

from ..app.client import Client
from ..errors import UsageError
from ..queues.actions import Acted, Verb
from ..queues.filters import JobFilter
from ..queues.jobs import Jobs
from .asking import agreed, asking_options
from .job_filters import filter_options
from .options import Command, Where, app_option, json_option
from .output import count, plain, write, write_json
from .project import Target, target_of, with_client

_FIRST = 5
_WORDS = {
    "retried": "made ready",
    "promoted": "made ready",
    "cancelled": "cancelled",
    "deleted": "deleted",
    "asked": "it runs: its worker was told to end it",
    "finished": "it had finished already: nothing to cancel",
}


@dataclass(frozen=True)
class _Wish:
    """What the command line asks for."""

    verb: Verb
    ids: tuple[str, ...]
    filters: JobFilter
    everything: bool
    dry_run: bool
    yes: bool
    as_json: bool


@dataclass(frozen=True)
class _Words:
    """How an action is done and told: "3 jobs would be …", "3 jobs …"."""

    would: str
    done: str
    by_ids: Callable[..., Awaitable[list[Acted]]]
    on_all: Callable[..., Awaitable[int]]
    asks_for_ids: bool = False
    """Whether it asks even when the jobs are named by their ids: it cannot be undone."""


_VERBS: dict[Verb, _Words] = {
    "retry": _Words("retried", "made ready", Jobs.retry, Jobs.retry_all),
    "cancel": _Words("cancelled", "cancelled; those that run were told to end", Jobs.cancel, Jobs.cancel_all),
    "delete": _Words("deleted", "deleted", Jobs.delete, Jobs.delete_all, asks_for_ids=True),
    "promote": _Words("promoted", "made ready", Jobs.promote, Jobs.promote_all),
}


def _action(command: Callable[[], Verb]) -> Command:
    """The command that does what `command` names: ids, filters and the options that the four have in common."""
    ids = click.argument("ids", metavar="[ID]...", nargs=-1)
    everything = click.option("--all", "everything", is_flag=True, help="Every job, where no filter is given.")
    return ids(filter_options(everything(asking_options(json_option(app_option(_wished(command)))))))


def _wished(command: Callable[[], Verb]) -> Command:
    @wraps(command)
    def run(
        *,
        where: Where,
        ids: tuple[str, ...],
        filters: JobFilter,
        everything: bool,
        dry_run: bool,
        yes: bool,
        as_json: bool,
    ) -> int:
        return _act(where, _Wish(command(), ids, filters, everything, dry_run, yes, as_json))

    return run


@click.command("retry")
@_action
def retry() -> Verb:
    """Make failed jobs ready again, with all their attempts: those of the IDs, or all that match the filters.

    With IDs it does not ask, and nothing is done when one of them is wrong.

    \b
    Examples:
      workfleet jobs retry 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs retry --queue emails --text timeout --dry-run
      workfleet jobs retry --all --yes
    """
    return "retry"


@click.command("cancel")
@_action
def cancel() -> Verb:
    """Cancel jobs: those of the IDs, or all unfinished ones that match the filters. They fail with the outcome
    `cancelled`, and can be retried; one that runs is ended by its worker. One that has finished is no mistake.

    \b
    Examples:
      workfleet jobs cancel 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs cancel --tag campaign-7 --yes
    """
    return "cancel"


@click.command("delete")
@_action
def delete() -> Verb:
    """Delete jobs with their logs: those of the IDs, or all that match the filters and do not run. It cannot be undone.

    \b
    Examples:
      workfleet jobs delete 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs delete --state failed --older-than 7d --dry-run
    """
    return "delete"


@click.command("promote")
@_action
def promote() -> Verb:
    """Make delayed jobs ready now: those of the IDs, or all that match the filters. An ID of a job that is not delayed
    is a mistake (exit 2): it cannot be made ready, unlike one that is to be cancelled and has finished already.

    \b
    Examples:
      workfleet jobs promote 01929c1e-8a34-7cf1-b0c2-6a1d34c7f0aa
      workfleet jobs promote --queue emails --yes
    """
    return "promote"


def _act(where: Where, wish: _Wish) -> int:
    matching = bool(wish.filters) or wish.everything
    if wish.ids and (wish.everything or set(wish.filters) - {"queue"}):
        raise UsageError("say which jobs by their ids, with --queue where that is needed, or by filters: not both")
    if not wish.ids and not matching:
        raise UsageError("say which jobs: their ids, filters such as --queue NAME, or --all")
    target = target_of(where)
    return _act_on_ids(target, wish) if wish.ids else _act_on_matching(target, wish)


def _act_on_ids(target: Target, wish: _Wish) -> int:
    words, ids = _VERBS[wish.verb], tuple(dict.fromkeys(wish.ids))
    queue = wish.filters.get("queue")
    asks = words.asks_for_ids and not wish.yes
    if wish.dry_run or asks:
        with_client(target, lambda client: client.jobs.check(wish.verb, *ids, queue=queue))
    if wish.dry_run:
        _write_dry(wish, len(ids), list(ids[:_FIRST]))
        return 0
    if asks and not agreed(f"{wish.verb.capitalize()} {count(len(ids), 'job')}?", yes=False):
        return 1
    acted = with_client(target, lambda client: words.by_ids(client.jobs, *ids, queue=queue))
    if wish.as_json:
        for one in acted:
            write_json({"id": one.id, "result": one.result, "reason": one.reason or None})
    else:
        _write_acted(acted)
    return 0 if all(one.result not in ("missing", "refused") for one in acted) else 1


def _act_on_matching(target: Target, wish: _Wish) -> int:
    words = _VERBS[wish.verb]
    matched, first = 0, list[str]()
    if wish.dry_run or not wish.yes:
        matched, first = with_client(target, lambda client: _count(client, wish))
    if wish.dry_run:
        _write_dry(wish, matched, first)
        return 0
    if not wish.yes and matched and not agreed(_question(wish, matched, first), yes=False):
        return 1
    done = 0
    if wish.yes or matched:
        done = with_client(target, lambda client: words.on_all(client.jobs, everything=True, **wish.filters))
    if wish.as_json:
        write_json({"action": wish.verb, "dry_run": False, "done": done})
    else:
        write(f"{count(done, 'job')} {words.done}" if done else "no jobs match: nothing was done")
    return 0


def _question(wish: _Wish, matched: int, first: list[str]) -> str:
    more = ", …" if matched > len(first) else ""
    return f"{wish.verb.capitalize()} {count(matched, 'job')} ({plain(', '.join(first))}{more})?"


def _write_dry(wish: _Wish, matched: int, first: list[str]) -> None:
    if wish.as_json:
        write_json({"action": wish.verb, "dry_run": True, "matched": matched, "first": first})
        return
    more = f" and {matched - len(first)} more" if matched > len(first) else ""
    listed = f": {plain(', '.join(first))}{more}" if first else ""
    write(f"{count(matched, 'job')} would be {_VERBS[wish.verb].would}{listed}")


def _write_acted(acted: list[Acted]) -> None:
    """How many it was done to, and a line for each that is not like the others."""
    usual = [one for one in acted if one.result in ("retried", "cancelled", "deleted", "promoted")]
    if usual:
        write(f"{count(len(usual), 'job')} {_WORDS[usual[0].result]}")
    for one in acted:
        if one not in usual:
            write(f"{plain(one.id)}: {one.reason or _WORDS[one.result]}")


async def _count(client: Client, wish: _Wish) -> tuple[int, list[str]]:
    matched, first = 0, list[str]()
    async for job in client.jobs.changed_by(wish.verb, **wish.filters):
        matched += 1
        if len(first) < _FIRST:
            first.append(job.id)
    return matched, first
