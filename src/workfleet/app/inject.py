"""A declared function with everything injected: sorted once into what lives as long as the process and what one run
long."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dishka import AsyncContainer

from workfleet.model.jobtypes import Job, JobContext
from workfleet.payloads.hints import Hints

from .graph import lives_for_one_job, split_hint
from .registry import Code

Run = Callable[..., Awaitable[object]]
"""Runs a function with arguments: here, or in a thread."""


@dataclass(frozen=True)
class Injected:
    """Call it with a job. A scope for one run is opened only where something needs it."""

    fn: Callable[..., Any]
    container: AsyncContainer
    takes_job: bool
    for_process: dict[str, Any]
    for_job: dict[str, tuple[Any, str]]

    @classmethod
    async def of(cls, container: AsyncContainer, code: Code, hints: Hints) -> Injected:
        """Resolve what lives as long as the process, the instance of a method's class included."""
        fn = code.fn if code.owner is None else getattr(await container.get(code.owner), code.attribute)
        for_process, for_job = {}, {}
        for parameter, hint in hints.injected.items():
            kind, component = split_hint(hint)
            if lives_for_one_job(container, hint):
                for_job[parameter] = (kind, component)
            else:
                for_process[parameter] = await container.get(kind, component)
        return cls(fn, container, hints.job_parameter is not None, for_process, for_job)

    def direct(self) -> Callable[[Job[Any]], Awaitable[object]] | None:
        """The shortest way to a coroutine function that needs nothing for one run; None where there is none."""
        if self.for_job or not inspect.iscoroutinefunction(self.fn):
            return None
        bound = partial(self.fn, **self.for_process) if self.for_process else self.fn
        return bound if self.takes_job else lambda _job: bound()

    async def call(self, job: Job[Any], run: Run) -> object:
        """One run."""
        arguments = (job,) if self.takes_job else ()
        if not self.for_job:
            return await run(self.fn, *arguments, **self.for_process)
        async with self.container(context={JobContext: JobContext(job)}) as request:
            fresh = {name: await request.get(kind, component) for name, (kind, component) in self.for_job.items()}
            return await run(self.fn, *arguments, **self.for_process, **fresh)


async def run_here(fn: Callable[..., Any], *arguments: Any, **named: Any) -> object:
    """Run a function, or await what it gives."""
    made = fn(*arguments, **named)
    return await made if inspect.isawaitable(made) else made
