"""Module hooks: called in dependency order, in reverse at the end, with injected parameters."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dishka import AsyncContainer

from workfleet.errors import ConfigError, Problem
from workfleet.modules.module import Hook, Module
from workfleet.payloads.hints import Hints, read_hints
from workfleet.supervision.service import Service

from .graph import check_parameters, lives_for_one_job, split_hint
from .registry import Code


async def call_hooks(modules: Iterable[Module], when: Hook, container: AsyncContainer) -> None:
    """Call one kind of hooks of all modules, in order. The first that raises ends it."""
    for module in modules:
        for fn in module.hooks[when]:
            await _call(fn, container)


async def end_hooks(modules: Iterable[Module], when: Hook, container: AsyncContainer, limit_ms: int) -> list[str]:
    """Call one kind of hooks at the end of a process, within `limit_ms` for all of them. One that fails does not keep
    the others from being called; what failed is returned."""
    failed = []
    until = asyncio.get_running_loop().time() + limit_ms / 1000
    for module in modules:
        for fn in module.hooks[when]:
            where = f"{module.name}.on_{when} ({fn.__qualname__})"
            scope = asyncio.timeout_at(until)
            try:
                async with scope:
                    await _call(fn, container)
            except Exception as error:  # noqa: BLE001 - the boundary around user code at the end of a process
                late = f"was ended: all hooks of this kind have {limit_ms} ms"
                failed.append(f"{where}: {late if scope.expired() else repr(error)}")
    return failed


async def module_services(modules: Iterable[Module], container: AsyncContainer) -> list[Service]:
    """The loops that modules bring, in order."""
    return [await container.get(kind) for module in modules for kind in module.services]


def check_hooks(modules: Iterable[Module], container: AsyncContainer) -> list[Problem]:
    """What hooks ask for that nothing provides, or that only a job has, and services that nothing provides."""
    problems: list[Problem] = []
    for module in modules:
        for hooks in module.hooks.values():
            for fn in hooks:
                try:
                    hints = read_hints(fn, method=False)
                except ConfigError as error:
                    problems += error.problems
                else:
                    problems += _faults(Code(fn, None, fn.__name__), hints, container)
        problems += [
            Problem(f"module {module.name!r}, services", f"nothing provides {kind.__qualname__} for the whole process")
            for kind in module.services
            if lives_for_one_job(container, kind)
        ]
    return problems


def _faults(code: Code, hints: Hints, container: AsyncContainer) -> list[Problem]:
    if hints.job_parameter is not None:
        return [Problem(code.where, "a hook has no job")]
    problems = check_parameters(container, code, hints.injected)
    if problems:
        return problems
    short = [name for name, hint in hints.injected.items() if lives_for_one_job(container, hint)]
    message = "it lives for one job, and a hook is called without one"
    return [Problem(f"{code.where}({name})", message) for name in short]


async def _call(fn: Callable[..., Any], container: AsyncContainer) -> None:
    arguments = {}
    for name, hint in read_hints(fn, method=False).injected.items():
        kind, component = split_hint(hint)
        arguments[name] = await container.get(kind, component)
    made = fn(**arguments)
    if inspect.isawaitable(made):
        await made
