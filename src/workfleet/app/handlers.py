"""The runnable handlers of a worker: queue handlers, scheduled functions, and, without queueing, both in one
process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from workfleet.errors import ConfigError, QueueingDisabled
from workfleet.model.jobs import JobRecord
from workfleet.model.outcome import RunPolicy
from workfleet.model.queue import Queue
from workfleet.queues.handlers import Handler, HandlerTable, Returned
from workfleet.settings.sections import SchedulerSettings

from .compile import Compiler
from .composition import Composition
from .definitions import Definition, schedules_queue, to_queue
from .planned import Planned, inline_name, listened, plan
from .queueing import limits_of, weight_of
from .registry import HandlerEntry

Finish = Callable[[JobRecord, object], Returned]


async def build_handlers(
    composition: Composition,
    compiler: Compiler,
    definitions: Sequence[Definition],
    scheduler: SchedulerSettings,
    queues: Sequence[str] | None,
) -> HandlerTable:
    """Compile everything that this worker runs. Raises `ConfigError` with all problems at once."""
    internal = schedules_queue(composition.app.name)
    concurrency = listened(composition, scheduler, queues)
    plans = plan(composition, definitions, concurrency)
    handlers, problems = list[Handler](), [*plans.problems]
    for planned in plans.planned:
        try:
            handlers.append(await _compiled(composition, compiler, planned))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    known = {name: composition.registry.queues.by_name.get(name) or Queue(name) for name in concurrency}
    if internal in known:
        said = known[internal]
        fleet = said.fleet_concurrency or scheduler.fleet_max_concurrent
        known[internal] = replace(said, fleet_concurrency=fleet)
    return HandlerTable(
        handlers,
        concurrency,
        switched_off=plans.off,
        weights={name: weight_of(queue, composition.queue_override(name)) for name, queue in known.items()},
        total=composition.core.max_jobs,
        backoffs=composition.backoffs.by_name,
        limits={name: limits_of(queue, composition.queue_override(name)) for name, queue in known.items()},
    )


async def _compiled(composition: Composition, compiler: Compiler, planned: Planned) -> Handler:
    source, limits = planned.source, compiler.enqueueing.limits
    entry = source if isinstance(source, HandlerEntry) else None
    limit = limits.of(planned.queue) if entry is None else limits.of(entry.queue, entry.job)
    finish: Finish = partial(compiler.finish, limit=limit)
    if isinstance(source, Definition) and source.target is not None:
        finish = to_queue(source.target, compiler.enqueueing)
    made = await compiler.handler(
        planned.code,
        queue=planned.queue,
        name=planned.name,
        policy=planned.policy,
        pool=planned.pool,
        on_timeout=planned.on_timeout,
        payload_limit=limit,
        finish=_rerouted(composition, finish),
    )
    return made if entry is None else replace(made, shown_as=(entry.queue, entry.name))


def _rerouted(composition: Composition, finish: Finish) -> Finish:
    """Without queueing the jobs that a run makes are run in this process: on the app's own queue, by the handler
    here."""
    if composition.core.queue_enabled:
        return finish
    internal = schedules_queue(composition.app.name)
    known = {(entry.queue, entry.name) for entry in composition.registry.handlers}

    def here(run: JobRecord, value: object) -> Returned:
        returned = finish(run, value)
        for job in returned.follow_up:
            if (job.queue, job.name) not in known:
                raise QueueingDisabled(job.queue, job.name)
            job.queue, job.name = internal, inline_name(job.queue, job.name)
        return returned

    return here


def unknown_policy(composition: Composition) -> RunPolicy:
    """What applies to a job that no handler is known for."""
    return RunPolicy(max_crashes=composition.core.max_crashes)
