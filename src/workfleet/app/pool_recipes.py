"""How threads and inline children of a pool get their object: its constructor's arguments come from the worker's own
container, and the constructor is called where the object will live."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from dishka import AsyncContainer

from workfleet.errors import ConfigError, Problem
from workfleet.payloads.hints import read_hints
from workfleet.pools.isolation import Recipe

from .graph import check_parameters, lives_for_one_job, split_hint
from .registry import Code


def recipe_of(cls: type[Any], container: AsyncContainer) -> Recipe:
    """Raises `ConfigError` for what nothing provides, and for what lives as long as one job."""
    hints = needs_of(cls, container)

    async def recipe() -> Callable[[], object]:
        arguments = {name: await container.get(*split_hint(hint)) for name, hint in hints.items()}
        return lambda: cls(**arguments)

    return recipe


def needs_of(cls: type[Any], container: AsyncContainer, besides: Collection[type[Any]] = ()) -> dict[str, Any]:
    """The constructor's parameters with their types, without those of the types `besides`. Nothing is made. Raises
    `ConfigError` as `recipe_of`."""
    code = Code(cls.__init__, cls, "__init__")
    hints = read_hints(code.fn, method=True).injected if inspect.isfunction(code.fn) else {}
    hints = {name: hint for name, hint in hints.items() if not any(hint is each for each in besides)}
    problems = check_parameters(container, code, hints)
    if not problems:
        leak = "it lives for one job, the object as long as its pool: take it as a parameter of a handler instead"
        short = [name for name, hint in hints.items() if lives_for_one_job(container, hint)]
        problems = [Problem(f"{code.where}({name})", leak) for name in short]
    if problems:
        raise ConfigError(problems)
    return hints
