"""The runnable handlers of a worker: queue handlers, scheduled functions, and, without queueing, both in one
process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from workfleet.errors import ConfigError, Problem, QueueingDisabled
from workfleet.model.jobs import JobRecord
from workfleet.model.outcome import RunPolicy
from workfleet.model.queue import Queue
from workfleet.queues.handlers import Handler, HandlerTable, Returned
from workfleet.settings.sections import SchedulerSettings

from .compile import Compiler
from .composition import Composition
from .definitions import Definition, define, schedules_queue, to_queue
from .policies import resolved, run_policy
from .queueing import concurrency_of, limits_of, weight_of
from .registry import HandlerEntry

Finish = Callable[[JobRecord, object], Returned]


def define_all(composition: Composition, scheduler: SchedulerSettings) -> list[Definition]:
    """All schedules of the code, with every problem reported at once."""
    found, problems = list[Definition](), list[Problem]()
    for entry in composition.registry.schedules:
        try:
            found.append(
                define(
                    entry,
                    app=composition.app.name,
                    core=composition.core,
                    scheduler=scheduler,
                    override=composition.override(entry.name),
                    resolve=composition.loaded.resolve,
                    backoffs=composition.backoffs,
                )
            )
        except ConfigError as error:
            problems += error.problems
        else:
            problems += _lost_target(composition, found[-1])
    if problems:
        raise ConfigError(problems)
    return found


def _lost_target(composition: Composition, definition: Definition) -> Sequence[Problem]:
    """Without queueing a queue target is called in this process, so its handler must be here."""
    target = definition.target
    if target is None or composition.core.queue_enabled or not definition.record.enabled:
        return ()
    if any((entry.queue, entry.name) == (target.queue, target.job) for entry in composition.registry.handlers):
        return ()
    message = (
        f"queueing is off, so its job {target.job!r} on queue {target.queue!r} would run in this process, "
        "but no handler of that name is here"
    )
    return (Problem(definition.entry.code.where, f"schedule {definition.record.name!r}: {message}"),)


async def build_handlers(
    composition: Composition,
    compiler: Compiler,
    definitions: Sequence[Definition],
    scheduler: SchedulerSettings,
    queues: Sequence[str] | None,
) -> HandlerTable:
    """Compile everything that this worker runs. Raises `ConfigError` with all problems at once."""
    core, internal = composition.core, schedules_queue(composition.app.name)
    handlers, problems = list[Handler](), list[Problem]()
    concurrency, off = _listened(composition, scheduler, queues), set[tuple[str, str]]()

    async def add(make: Any) -> None:
        try:
            handlers.append(await make)
        except ConfigError as error:
            problems.extend(error.problems)

    for entry in composition.registry.handlers:
        override = composition.override(entry.name)
        if override is not None and not override.enabled:
            off |= {(entry.queue, entry.name), (internal, inline_name(entry.queue, entry.name))}
        elif core.queue_enabled and entry.queue in concurrency:
            await add(_queue_handler(composition, compiler, entry, entry.queue, entry.name))
        elif not core.queue_enabled and internal in concurrency:
            name = inline_name(entry.queue, entry.name)
            await add(_queue_handler(composition, compiler, entry, internal, name))
    if internal in concurrency:
        for definition in definitions:
            await add(_scheduled(composition, compiler, definition, internal))
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
        switched_off=off,
        weights={name: weight_of(queue, composition.queue_override(name)) for name, queue in known.items()},
        total=core.max_jobs,
        backoffs=composition.backoffs.by_name,
        limits={name: limits_of(queue, composition.queue_override(name)) for name, queue in known.items()},
    )


def _listened(composition: Composition, scheduler: SchedulerSettings, queues: Sequence[str] | None) -> dict[str, int]:
    """The queues that this worker claims from, and how many jobs of each at a time."""
    core, declared = composition.core, composition.registry.queues.by_name
    wanted = queues if queues is not None else core.queues
    unknown = [queue for queue in wanted or () if queue not in declared]
    if unknown:
        known = ", ".join(sorted(declared)) or "none"
        raise ConfigError(Problem("queues", f"no handler is on {', '.join(unknown)}. Queues with handlers: {known}"))
    listened = {
        name: concurrency_of(queue, composition.queue_override(name), core.concurrency)
        for name, queue in declared.items()
        if core.queue_enabled and (wanted is None or name in wanted)
    }
    if core.scheduler_enabled:
        internal = schedules_queue(composition.app.name)
        override = composition.queue_override(internal)
        listened[internal] = concurrency_of(Queue(internal), override, scheduler.max_concurrent)
    return listened


async def _queue_handler(
    composition: Composition, compiler: Compiler, entry: HandlerEntry, queue: str, name: str
) -> Handler:
    options = composition.backoffs.named(entry.code.where, resolved(entry.options, composition.loaded.resolve))
    core, limit = composition.core, compiler.enqueueing.limits.of(entry.queue, entry.job)
    policy = run_policy(entry.code.where, options, composition.override(entry.name), max_crashes=core.max_crashes)
    made = await compiler.handler(
        entry.code,
        queue=queue,
        name=name,
        policy=policy,
        pool=options.get("pool"),
        on_timeout=options.get("on_timeout", "kill"),
        payload_limit=limit,
        finish=_rerouted(composition, partial(compiler.finish, limit=limit)),
    )
    return replace(made, shown_as=(entry.queue, entry.name))


async def _scheduled(composition: Composition, compiler: Compiler, definition: Definition, internal: str) -> Handler:
    options, target = definition.entry.spec.options, definition.target
    limit = compiler.enqueueing.limits.of(internal)
    own = partial(compiler.finish, limit=limit)
    finish = own if target is None else to_queue(target, compiler.enqueueing)
    return await compiler.handler(
        definition.entry.code,
        queue=internal,
        name=definition.record.name,
        policy=definition.policy,
        pool=options.get("pool"),
        on_timeout=options.get("on_timeout", "kill"),
        payload_limit=limit,
        finish=_rerouted(composition, finish),
    )


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


def inline_name(queue: str, name: str) -> str:
    """The name under which a queue's handler runs on the app's own queue."""
    return f"{name} (from {queue})"


def unknown_policy(composition: Composition) -> RunPolicy:
    """What applies to a job that no handler is known for."""
    return RunPolicy(max_crashes=composition.core.max_crashes)
