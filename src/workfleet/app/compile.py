"""From declared to runnable: each handler and schedule is compiled once at start, so that a job needs no reflection.

The one place where injection, guards, threads and pools meet a function: `compile_handler` gives the queues a
`Handler`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dishka import AsyncContainer

from workfleet.enqueueing import Enqueueing
from workfleet.errors import ConfigError, PayloadRejected, Problem
from workfleet.model.declared import guards_of
from workfleet.model.jobs import JobRecord
from workfleet.model.jobtypes import Job, NewJob
from workfleet.model.outcome import RunPolicy
from workfleet.payloads.codec import DEFAULT_LIMIT, Codec, encode_result
from workfleet.payloads.hints import Hints, read_hints
from workfleet.ports.guards import Call, Guard
from workfleet.queues.handlers import NOTHING, THREAD_TIMEOUT, Handler, Returned

from .graph import check_parameters
from .guarding import guard_problems
from .inject import Injected, run_here
from .registry import Code
from .threads import HandlerThreads

Invoke = Callable[[Job[Any]], Awaitable[object]]
MakeGuards = Callable[[Any, str, Sequence[str], Any], Sequence[Guard]]
"""Guards for a function's recorded specs, its whole name (what they remember must not meet another's), its parameters'
names and the type of its result."""


@dataclass(frozen=True)
class ReadCode:
    """What a function's hints say, found to be right."""

    hints: Hints
    argument: str
    """The name under which guards know the job."""
    payload: Codec
    in_thread: bool


def read_code(
    code: Code, container: AsyncContainer | None, *, name: str, policy: RunPolicy, in_pool: bool, on_timeout: str
) -> ReadCode:
    """Reads a function of jobs. Nothing is made or called. Without a container nothing is said of injection.

    Raises `ConfigError` with all that cannot work: hints, types, injection, guards, timeouts."""
    in_thread = not in_pool and not inspect.iscoroutinefunction(code.fn)
    problems = _unrunnable(code, policy, on_timeout, in_thread=in_thread)
    try:
        hints = read_hints(code.fn, method=code.owner is not None)
    except ConfigError as error:
        raise ConfigError([*error.problems, *problems]) from None
    problems += [] if container is None else check_parameters(container, code, hints.injected)
    argument, payload = hints.job_parameter or "job", None
    try:
        payload = Codec(hints.payload if hints.job_parameter else Any, f"payload of {name}")
    except PayloadRejected as error:
        problems.append(Problem(code.where, str(error)))
    problems += guard_problems(guards_of(code.fn), code.where, (argument,), hints.result, "run")
    if payload is None or problems:
        raise ConfigError(problems)
    return ReadCode(hints, argument, payload, in_thread)


@dataclass
class Compiler:
    """What compilation needs, gathered once."""

    container: AsyncContainer
    enqueueing: Enqueueing
    make_guards: MakeGuards
    threads: HandlerThreads
    in_pool: Callable[[Code, Any], Awaitable[Invoke]]
    """Makes the invocation of a handler that runs in a pool: its code, and the pool that it names."""

    async def handler(
        self,
        code: Code,
        *,
        queue: str,
        name: str,
        policy: RunPolicy,
        pool: Any = None,
        on_timeout: str = "kill",
        finish: Callable[[JobRecord, object], Returned] | None = None,
        payload_limit: int = DEFAULT_LIMIT,
    ) -> Handler:
        """A runnable handler. Raises `ConfigError` for what cannot work: hints, types, injection, guards, timeouts."""
        read = read_code(
            code, self.container, name=name, policy=policy, in_pool=pool is not None, on_timeout=on_timeout
        )
        guards = self.make_guards(guards_of(code.fn), code.where, (read.argument,), read.hints.result)
        if pool is not None:
            invoke = await self.in_pool(code, pool)
        else:
            invoke = await self._invocation(code, read.hints, in_thread=read.in_thread)
        return Handler(
            queue=queue,
            name=name,
            payload=read.payload,
            policy=policy,
            invoke=_guarded(guards, code.label, read.argument, invoke),
            finish=finish or self.finish,
            in_thread=read.in_thread,
            abandons=on_timeout == "abandon",
            payload_limit=payload_limit,
        )

    async def _invocation(self, code: Code, hints: Hints, *, in_thread: bool) -> Invoke:
        injected = await Injected.of(self.container, code, hints)
        run = self.threads.run if in_thread else run_here
        if not in_thread and (direct := injected.direct()) is not None:
            return direct

        async def invoke(job: Job[Any]) -> object:
            return await injected.call(job, run)

        return invoke

    def finish(self, record: JobRecord, value: object, *, limit: int = DEFAULT_LIMIT) -> Returned:
        """A return value as a result of at most `limit` bytes. Returned `NewJob`s are enqueued in the step that settles
        the run; their ids derive from the run's, so that a run that is repeated after a crash makes the same jobs."""
        if value is None:
            return NOTHING
        jobs, what = _new_jobs(value), f"result of {record.name}"
        if jobs is None:
            return Returned(encode_result(value, what, limit=limit))
        follow_up = tuple(self.enqueueing.follow_up(job, record, index) for index, job in enumerate(jobs))
        return Returned(encode_result([job.id for job in follow_up], what, limit=limit), follow_up)


def _guarded(guards: Sequence[Guard], label: str, argument: str, invoke: Invoke) -> Invoke:
    if not guards:
        return invoke

    async def run(job: Job[Any]) -> object:
        return await around(guards, Call(label, {argument: job}), partial(invoke, job))

    return run


async def around(guards: Sequence[Guard], call: Call, invoke: Callable[[], Awaitable[object]]) -> object:
    """Run a call inside its guards, the first outermost."""
    if not guards:
        return await invoke()
    first, rest = guards[0], guards[1:]
    return await first(call, lambda: around(rest, call, invoke))


def _new_jobs(value: object) -> list[NewJob[Any]] | None:
    if isinstance(value, NewJob):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, NewJob) for item in value):
        return list(value)
    return None


def _unrunnable(code: Code, policy: RunPolicy, on_timeout: str, *, in_thread: bool) -> list[Problem]:
    """What of a function's kind and its options cannot work together."""
    if inspect.isasyncgenfunction(code.fn) or inspect.isgeneratorfunction(code.fn):
        return [Problem(code.where, "it is a generator: a handler returns its result, it does not yield it")]
    if on_timeout not in ("kill", "abandon"):
        return [Problem(code.where, f"on_timeout={on_timeout!r}: it is 'kill' or 'abandon'")]
    if in_thread and policy.timeout_ms is not None and on_timeout != "abandon":
        return [Problem(code.where, THREAD_TIMEOUT)]
    if on_timeout == "abandon" and not in_thread:
        return [Problem(code.where, "on_timeout='abandon' is for a plain function in a thread; this one can be ended")]
    return []
