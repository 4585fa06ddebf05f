"""The built-in sections as injectable values. A module's factory may make what the code gives to one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from dishka import Provider, Scope
from pydantic import BaseModel

from workfleet.errors import ConfigError, Problem
from workfleet.settings.loaded import Loaded
from workfleet.settings.sections import BUILT_IN

from .composition import Composition


def section_provider(composition: Composition) -> Provider:
    """Provides every built-in section by its type."""
    factories: dict[str, Callable[..., Any]] = {}
    for module in composition.modules:
        factories |= module.factories
    provider = Provider(scope=Scope.APP)
    for name, model in BUILT_IN.items():
        provider.provide(_maker(name, model, composition.loaded, factories.get(name)))
    return provider


def _maker(name: str, model: type[BaseModel], loaded: Loaded, factory: Callable[..., Any] | None) -> Callable[..., Any]:
    async def make(**injected: Any) -> BaseModel:
        if factory is None:
            return loaded.section(name, model)
        made = factory(**injected)
        options = await made if inspect.isawaitable(made) else made
        if not isinstance(options, Mapping | BaseModel):
            shown = type(options).__name__
            raise ConfigError(
                Problem(name, f"the module's factory returned {shown}; it returns the options as a mapping")
            )
        return loaded.with_given(name, options).section(name, model)

    # The injector reads a maker's parameters from its signature and hints: those of the factory, and our model.
    parameters = [] if factory is None else [*inspect.signature(factory).parameters.values()]
    keyword = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    hints = {} if factory is None else get_type_hints(factory)
    make.__signature__ = inspect.Signature(keyword, return_annotation=model)  # type: ignore[attr-defined]
    make.__annotations__ = {**hints, "return": model}
    return make
