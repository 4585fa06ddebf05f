"""An application with its settings: modules in order, sections loaded, declarations collected. Nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from workfleet.errors import ConfigError, Problem
from workfleet.modules.module import Module, in_order
from workfleet.settings.core import JobOverride, QueueOverride, Settings
from workfleet.settings.load import load, load_isolated
from workfleet.settings.loaded import Loaded

from .app import App
from .backoffs import Backoffs
from .definitions import schedules_queue
from .lifecycle_jobs import lifecycle_jobs
from .locate import load_app
from .locking import locks_url
from .registry import Registry, collect, with_extra

Sections = Mapping[str, type[BaseModel]]
Values = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Composition:
    """What is known of an application before anything of it runs."""

    app: App
    modules: tuple[Module, ...]
    loaded: Loaded
    registry: Registry
    backoffs: Backoffs

    @property
    def core(self) -> Settings:
        return self.loaded.core

    @property
    def store_url(self) -> str:
        return self.loaded.store_url(self.app.name)

    @property
    def locks_url(self) -> str | None:
        """The store of the locks, where that is another one. Raises `ConfigError`."""
        return locks_url(self.loaded, self.app.name, self.modules)

    @property
    def release(self) -> str:
        return self.core.release or ""

    def override(self, job: str) -> JobOverride | None:
        """What an operator set for a job or schedule by its name."""
        return self.core.jobs.get(job)

    def queue_override(self, queue: str) -> QueueOverride | None:
        """What an operator set for a queue by its name."""
        return self.core.queue_limits.get(queue)


def compose(app: App, *, cli: Mapping[str, Any] | None = None, config: Path | None = None) -> Composition:
    """Load the settings and collect what is declared. Raises `ConfigError` with all problems that it can find."""

    def read(sections: Sections, given: Values) -> Loaded:
        return load(sections, given=given, cli=cli, config=config)

    return _composed(app, read, lifecycle_jobs)


def compose_isolated(app: App, said: Mapping[str, Any], place: str) -> Composition:
    """As `compose`, but what a test says is the only setting: nothing of this machine is read, and the built-in jobs
    are left out. `place` is where it was said."""

    def read(sections: Sections, given: Values) -> Loaded:
        return load_isolated(sections, given=given, said=said, place=place)

    def only_queue(core: Settings) -> Registry:
        return replace(lifecycle_jobs(core), handlers=[], schedules=[], classes=[])

    return _composed(app, read, only_queue)


def _composed(
    app: App, read: Callable[[Sections, Values], Loaded], built_in: Callable[[Settings], Registry]
) -> Composition:
    try:
        modules = in_order(app)
    except ValueError as error:
        raise ConfigError(Problem("modules", str(error))) from None
    loaded = read({module.name: module.settings for module in modules if module.settings is not None}, _given(modules))
    registry = collect(modules, loaded.core.packages, loaded.core.default_queue)
    registry = with_extra(registry, built_in(loaded.core))
    jobs = {entry.name for entry in registry.handlers} | {entry.name for entry in registry.schedules}
    loaded = loaded.with_names(
        jobs=jobs,
        pools=[*(mark.name for _, mark in registry.processes), "cpu"],
        queues=[*registry.queues.by_name, schedules_queue(app.name)],
    )
    composition = Composition(app, tuple(modules), loaded, registry, Backoffs(modules))
    _ = composition.locks_url  # a client that nothing names is found at the start
    return composition


def _given(modules: list[Module]) -> dict[str, Mapping[str, Any]]:
    """What the code gives, by section. Two modules that give the same section contradict each other."""
    given: dict[str, Mapping[str, Any]] = {}
    for module in modules:
        for section, values in module.given.items():
            if section in given:
                raise ConfigError(Problem(section, "two modules give this section: compose it once"))
            given[section] = values
    return given


def composition_of(locator: str, config: Mapping[str, Any]) -> Composition:
    """The application at a locator, with what the command line says. `config` holds "--config" under that very name."""
    values = dict(config)
    path = values.pop("config", None)
    return compose(load_app(locator), cli=values, config=Path(path) if path else None)
