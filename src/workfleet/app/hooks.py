"""Module hooks: called in dependency order, in reverse at the end, with injected parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal

from dishka import AsyncContainer

from workfleet.errors import ConfigError, Problem
from workfleet.modules.module import Hook, Module
from workfleet.payloads.hints import read_hints

from .graph import check_parameters, split_hint
from .registry import Code


async def call_hooks(
    modules: Iterable[Module], when: Hook, container: AsyncContainer, *, on_error: Literal["raise", "collect"] = "raise"
) -> list[str]:
    """Call one kind of hooks of all modules. With "collect" one that fails does not keep the others from being
    called, and
    what failed is returned."""
    failed = []
    for module in modules:
        for fn in module.hooks[when]:
            try:
                await _call(fn, container)
            except Exception as error:  # the boundary around user code at the end of a process
                if on_error == "raise":
                    raise
                failed.append(f"{module.name}.on_{when} ({fn.__qualname__}): {error!r}")
    return failed


def check_hooks(modules: Iterable[Module], container: AsyncContainer) -> list[Problem]:
    """What hooks ask for that nothing provides."""
    problems: list[Problem] = []
    for module in modules:
        for hooks in module.hooks.values():
            for fn in hooks:
                try:
                    hints = read_hints(fn, method=False)
                except ConfigError as error:
                    problems += error.problems
                else:
                    problems += check_parameters(container, Code(fn, None, fn.__name__), hints.injected)
    return problems


async def _call(fn: Callable[..., Any], container: AsyncContainer) -> None:
    arguments = {}
    for name, hint in read_hints(fn, method=False).injected.items():
        kind, component = split_hint(hint)
        arguments[name] = await container.get(kind, component)
    made = fn(**arguments)
    if inspect.isawaitable(made):
        await made
