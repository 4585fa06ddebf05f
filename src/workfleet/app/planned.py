"""What a worker is to run, before anything of it is made: the schedules of the code, and the functions behind handlers
and schedules with their policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workfleet.errors import ConfigError, Problem
from workfleet.model.outcome import RunPolicy
from workfleet.model.queue import Queue
from workfleet.settings.sections import SchedulerSettings

from .composition import Composition
from .definitions import Definition, define, schedules_queue
from .policies import resolved, run_policy
from .queueing import concurrency_of
from .registry import Code, HandlerEntry


def define_all(composition: Composition, scheduler: SchedulerSettings) -> list[Definition]:
    """All schedules of the code. Raises `ConfigError` with every problem at once."""
    found, problems = definitions_of(composition, scheduler)
    if problems:
        raise ConfigError(problems)
    return found


def definitions_of(composition: Composition, scheduler: SchedulerSettings) -> tuple[list[Definition], list[Problem]]:
    """The schedules of the code that are right, and what is wrong with the others."""
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
    return found, problems


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


@dataclass(frozen=True)
class Planned:
    """A function that is to run jobs of a name on a queue. `pool` is what its options say."""

    source: HandlerEntry | Definition
    queue: str
    name: str
    policy: RunPolicy
    pool: Any
    on_timeout: str

    @property
    def code(self) -> Code:
        source = self.source
        return source.code if isinstance(source, HandlerEntry) else source.entry.code


@dataclass(frozen=True)
class Plan:
    """All that one worker runs. `off` are the jobs that an operator has switched off, by queue and name."""

    planned: Sequence[Planned]
    off: frozenset[tuple[str, str]]
    problems: Sequence[Problem]
    """Of those that are not planned."""


def plan(composition: Composition, definitions: Sequence[Definition], concurrency: dict[str, int]) -> Plan:
    """What runs on the queues in `concurrency`, which are those that a worker claims from."""
    core, internal = composition.core, schedules_queue(composition.app.name)
    planned, off, problems = list[Planned](), set[tuple[str, str]](), list[Problem]()
    for entry in composition.registry.handlers:
        override = composition.override(entry.name)
        inline = inline_name(entry.queue, entry.name)
        queue, name = (entry.queue, entry.name) if core.queue_enabled else (internal, inline)
        if override is not None and not override.enabled:
            off |= {(entry.queue, entry.name), (internal, inline)}
        elif queue in concurrency:
            try:
                planned.append(_handled(composition, entry, queue, name))
            except ConfigError as error:
                problems += error.problems
    if internal in concurrency:
        planned += [_scheduled(definition, internal) for definition in definitions]
    return Plan(planned, frozenset(off), problems)


def _handled(composition: Composition, entry: HandlerEntry, queue: str, name: str) -> Planned:
    where, max_crashes = entry.code.where, composition.core.max_crashes
    options = composition.backoffs.named(where, resolved(entry.options, composition.loaded.resolve))
    policy = run_policy(where, options, composition.override(entry.name), max_crashes=max_crashes)
    return Planned(entry, queue, name, policy, options.get("pool"), options.get("on_timeout", "kill"))


def _scheduled(definition: Definition, internal: str) -> Planned:
    options = definition.entry.spec.options
    pool, on_timeout = options.get("pool"), options.get("on_timeout", "kill")
    return Planned(definition, internal, definition.record.name, definition.policy, pool, on_timeout)


def inline_name(queue: str, name: str) -> str:
    """The name under which a queue's handler runs on the app's own queue."""
    return f"{name} (from {queue})"


def listened(composition: Composition, scheduler: SchedulerSettings, queues: Sequence[str] | None) -> dict[str, int]:
    """The queues that a worker claims from, and how many jobs of each at a time. `queues` are those that it is told;
    None: as the settings say. Raises `ConfigError` for one on which there is no handler."""
    core, declared = composition.core, composition.registry.queues.by_name
    wanted = queues if queues is not None else core.queues
    unknown = [queue for queue in wanted or () if queue not in declared]
    if unknown:
        known = ", ".join(sorted(declared)) or "none"
        raise ConfigError(Problem("queues", f"no handler is on {', '.join(unknown)}. Queues with handlers: {known}"))
    found = {
        name: concurrency_of(queue, composition.queue_override(name), core.concurrency)
        for name, queue in declared.items()
        if core.queue_enabled and (wanted is None or name in wanted)
    }
    if core.scheduler_enabled:
        internal = schedules_queue(composition.app.name)
        override = composition.queue_override(internal)
        found[internal] = concurrency_of(Queue(internal), override, scheduler.max_concurrent)
    return found
