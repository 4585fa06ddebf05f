"""`workfleet schedules add`: a schedule that is kept in the store, with the options that `Schedules.add` has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

import click

from ..app.client import Client
from ..app.lifecycle_jobs import HEARTBEAT, STARTUP
from ..errors import UsageError
from ..model.cron import DstGap, DstOverlap
from ..model.jobtypes import NewJob
from ..model.options import JobOptions, ScheduleOptions
from ..model.schedules import Overlap
from ..schedules.info import ScheduleInfo
from .documents import schedule_document
from .instants import local_instant_of
from .new_job import handlers_of, new_job, producer_of, read_payload, tell_if_unknown
from .options import Command, Where, app_option, json_option
from .output import plain, write, write_json
from .project import Target, with_client

_DURATION = "DURATION"
_NOTHING = "none"


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


when_options = _options(
    click.option("--cron", metavar="EXPR", help="Due by a cron expression, in quotes."),
    click.option("--every", metavar=_DURATION, help="Due every so often, such as 15m, on a fixed grid."),
    click.option("--at", metavar="INSTANT", help="Due once; without an offset it is local in the time zone."),
    click.option(
        "--timezone", metavar="ZONE", help="Where the expression and dates are local, if not WORKER_TIMEZONE."
    ),
    click.option("--offset", metavar=_DURATION, help="Move the grid of --every."),
    click.option("--start", metavar="INSTANT", help="Slots count from then on."),
    click.option("--end", metavar="INSTANT", help="Slots count before then."),
    click.option("--skip-on", metavar="DATE", multiple=True, help="A local date without slots; more than once."),
    click.option("--dst-gap", type=click.Choice(get_args(DstGap)), help="A fixed time that the clock passes over."),
    click.option("--dst-overlap", type=click.Choice(get_args(DstOverlap)), help="Which of two equal times is meant."),
    click.option("--jitter", metavar=_DURATION, help="Each slot is later by up to this."),
)
run_options = _options(
    click.option("--overlap", type=click.Choice(get_args(Overlap)), help="While the previous run is unfinished."),
    click.option("--missed", metavar="POLICY", help="What becomes of slots that passed: once, skip or 'catch_up(10)'."),
    click.option("--expires", metavar=_DURATION, help="A run that has waited this long is not started any more."),
    click.option("--attempts", metavar="N", type=int, help="How often a run is tried, if not as its handler says."),
    click.option("--backoff", metavar=_DURATION, help="The wait between attempts; none: no wait."),
    click.option("--retry", metavar="EXCEPTION=DURATION", multiple=True, help="The wait after it; none: no retry."),
    click.option("--timeout", metavar=_DURATION, help="The longest run; none: no limit."),
    click.option("--description", metavar="TEXT", help="Shown in listings."),
    click.option("--disabled", is_flag=True, help="It never fires."),
)
job_options = _options(
    click.option("--queue", metavar="QUEUE", help="The job's queue, if not that of its handler."),
    click.option("--priority", metavar="N", type=int, help="0 first, then lower numbers sooner."),
    click.option("--tag", "tags", metavar="TEXT", multiple=True, help="A tag of each job; more than once."),
)


@click.command("add")
@click.argument("name")
@click.argument("job_name", metavar="JOBNAME")
@click.argument("payload", metavar="[JSON]", default="null")
@when_options
@run_options
@job_options
@click.option("--replace", is_flag=True, help="Change the schedule of that name, if there is one.")
@json_option
@app_option
def add(
    *,
    where: Where,
    name: str,
    job_name: str,
    payload: str,
    queue: str | None,
    priority: int | None,
    tags: tuple[str, ...],
    replace: bool,
    as_json: bool,
    **said: Any,
) -> int:
    """Add a schedule that enqueues a job at each slot. It is kept in the store, through restarts, until it is removed.

    JOBNAME is a handler's name, JSON the payload of each of its jobs; `-` reads it from standard input. Give one of
    --cron, --every and --at.

    \b
    Examples:
      workfleet schedules add report:acme build '{"tenant": 7}' --cron '0 6 * * MON' --timezone Europe/Berlin
      workfleet schedules add sweep clean --every 15m --jitter 1m --queue housework --replace
    """
    value = read_payload(payload, job_name)
    options = _schedule_options(said)
    target = producer_of(where)
    queue = _queue_of(target, job_name) if queue is None else queue
    job = new_job(target, queue, job_name, value, _job_options(priority, tags))
    when = {"cron": said["cron"], "every": said["every"], "at": said["at"] and local_instant_of("--at", said["at"])}
    info = with_client(target, lambda client: _add(client, name, job, when, options, replace=replace))
    if as_json:
        write_json(schedule_document(info))
    else:
        due = info.next_due
        write(f"{plain(name)} is added, due next {due:%Y-%m-%dT%H:%M:%SZ}" if due else f"{plain(name)} is added")
    tell_if_unknown(target, info.queue, job_name)
    return 0


def _queue_of(target: Target, job_name: str) -> str:
    """The queue of the handler of that name."""
    queues = sorted({entry.queue for entry in handlers_of(target) if entry.name == job_name})
    if len(queues) == 1:
        return queues[0]
    if queues:
        raise UsageError(f"{target.app} has handlers {job_name!r} on queues {', '.join(queues)}: say --queue")
    if target.composition is None:
        return target.loaded.core.default_queue
    own = {entry.name for entry in handlers_of(target)} - {STARTUP, HEARTBEAT}
    known = ", ".join(sorted(own)) or "none"
    raise UsageError(f"{target.app} has no handler {job_name!r}, only {known}: say --queue for one that is elsewhere")


def _job_options(priority: int | None, tags: tuple[str, ...]) -> JobOptions:
    options = JobOptions()
    if priority is not None:
        options["priority"] = priority
    if tags:
        options["tags"] = tags
    return options


def _schedule_options(said: dict[str, Any]) -> ScheduleOptions:
    """What was said, as `Schedules.add` takes it."""
    given: dict[str, Any] = {name: said[name] for name in _PLAIN if said[name] is not None}
    given |= {name: local_instant_of(f"--{name}", said[name]) for name in ("start", "end") if said[name] is not None}
    given |= {name: None for name in ("backoff", "timeout") if said[name] == _NOTHING}
    if said["skip_on"]:
        given["skip_on"] = list(said["skip_on"])
    if said["retry"]:
        given["retry"] = dict(map(_rule, said["retry"]))
    if said["disabled"]:
        given["enabled"] = False
    return cast(ScheduleOptions, given)


_PLAIN = (
    *("timezone", "offset", "dst_gap", "dst_overlap", "jitter", "overlap", "missed", "expires"),
    *("attempts", "backoff", "timeout", "description"),
)


def _rule(text: str) -> tuple[str, str | None]:
    exception, equals, wait = text.partition("=")
    if not equals:
        raise UsageError(f"--retry {text!r}: write ConnectionError=10s, or ValueError=none for no further attempt")
    return exception, None if wait == _NOTHING else wait


async def _add(
    client: Client, name: str, job: NewJob[Any], when: dict[str, Any], options: ScheduleOptions, *, replace: bool
) -> ScheduleInfo:
    return await client.schedules.add(name, job, **when, replace=replace, **options)
