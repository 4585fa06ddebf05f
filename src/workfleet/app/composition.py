"""An application with its settings: modules in order, sections loaded, declarations collected. Nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workfleet.errors import ConfigError, Problem
from workfleet.modules.module import Module, in_order
from workfleet.settings.core import JobOverride, Settings
from workfleet.settings.load import load
from workfleet.settings.loaded import Loaded

from .app import App
from .lifecycle_jobs import lifecycle_jobs
from .locate import load_app
from .registry import Registry, collect, with_extra


@dataclass(frozen=True)
class Composition:
    """What is known of an application before anything of it runs."""

    app: App
    modules: tuple[Module, ...]
    loaded: Loaded
    registry: Registry

    @property
    def core(self) -> Settings:
        return self.loaded.core

    @property
    def store_url(self) -> str:
        return self.loaded.store_url(self.app.name)

    @property
    def release(self) -> str:
        return self.core.release or ""

    def override(self, job: str) -> JobOverride | None:
        """What an operator set for a job or schedule by its name."""
        return self.core.jobs.get(job)


def compose(app: App, *, cli: Mapping[str, Any] | None = None, config: Path | None = None) -> Composition:
    """Load the settings and collect what is declared. Raises `ConfigError` with all problems that it can find."""
    try:
        modules = in_order(app)
    except ValueError as error:
        raise ConfigError(Problem("modules", str(error))) from None
    sections = {module.name: module.settings for module in modules if module.settings is not None}
    loaded = load(sections, given=_given(modules), cli=cli, config=config)
    registry = collect(modules, loaded.core.packages, loaded.core.default_queue)
    registry = with_extra(registry, lifecycle_jobs(loaded.core))
    jobs = {entry.name for entry in registry.handlers} | {entry.name for entry in registry.schedules}
    loaded = loaded.with_names(jobs=jobs, pools=[*(mark.name for _, mark in registry.processes), "cpu"])
    return Composition(app, tuple(modules), loaded, registry)


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
