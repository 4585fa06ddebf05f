"""`Loaded`: the settings of this process, each with its origin. Made by load.py; reads no source itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import BaseModel

from workfleet.errors import ConfigError, Problem
from workfleet.model.setting import Setting
from workfleet.stores.open import METRICS, PREFIX, is_redis, with_options

from .core import Settings
from .expand import Expander
from .given import Findings, Given, Origin, SettingPath, Source
from .merge import BY_NAME, effective, settle_names
from .names import FOLLOWS, SAME, env_name, file_key, nearest
from .rules import check_rules
from .store import default_store
from .tree import Group, Leaf, find, leaves
from .validate import validated

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Inputs:
    """All that settings are made from. `names` are the jobs', pools' and queues' real names, where they are known."""

    models: Mapping[str, type[BaseModel]]
    tree: Group
    givens: tuple[Given, ...]
    project: Path
    names: Mapping[SettingPath, tuple[str, ...]]


@dataclass(frozen=True)
class Loaded:
    """Valid settings. `origins` tells where each one that somebody gave was written, by its name in files."""

    core: Settings
    sections: Mapping[str, BaseModel]
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...]
    inputs: Inputs = field(repr=False)
    values: Mapping[SettingPath, Given] = field(repr=False)

    @property
    def project(self) -> Path:
        """The project root."""
        return self.inputs.project

    @overload
    def section(self, name: str) -> BaseModel: ...
    @overload
    def section(self, name: str, model: type[M]) -> M: ...
    def section(self, name: str, model: type[BaseModel] = BaseModel) -> BaseModel:
        """A section by its module's name; with `model`, typed. KeyError: there is none; TypeError: it is another."""
        found = self.sections[name]
        if not isinstance(found, model):
            raise TypeError(f"section {name!r} is a {type(found).__name__}, not a {model.__name__}")
        return found

    def store_url(self, app: str) -> str:
        """The store of an app of that name: the Redis of REDIS_* where that is enabled, else WORKER_STORE, else the
        app's own file in the project. A Redis store's says what holds for its queues too."""
        url = self._named_store()
        if url is None:
            return default_store(self.project, app)
        prefix, kept = self.core.queue_prefix, self.core.queue_metrics
        options = {} if prefix is None else {PREFIX: prefix}
        if kept is not None:
            options[METRICS] = str(kept // timedelta(minutes=1))
        return with_options(url, options) if is_redis(url) else url

    @property
    def names_store(self) -> bool:
        """Whether anybody said which store it is."""
        return self._named_store() is not None

    def _named_store(self) -> str | None:
        redis, store = self.core.redis, self.values.get(("store",))
        # The command line is above REDIS_ENABLED; the rules have refused any other contradiction.
        above = store is not None and store.value is not None and store.origin.source is Source.COMMAND_LINE
        enough = self.core.store is not None and is_redis(self.core.store) and not redis.says_where
        return redis.store_url() if redis.enabled and not above and not enough else self.core.store

    def resolve(self, value: Any) -> Any:
        """The value that a `setting("path")` names; anything else is given back as it is. ConfigError: no such path."""
        if not isinstance(value, Setting):
            return value
        first, *rest = value.path.split(".")
        found: Any = self.sections.get(first, self.core)
        for key in rest if first in self.sections else [first, *rest]:
            if isinstance(found, BaseModel) and key in type(found).model_fields:
                found = getattr(found, key)
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            else:
                raise ConfigError(self._no_such(value))
        return found

    def _no_such(self, value: Setting) -> Problem:
        near = nearest(value.path, [file_key(self.inputs.tree, leaf.path) for leaf in leaves(self.inputs.tree)])
        hint = f"; did you mean {near}?" if near else ""
        return Problem(str(value), f"there is no such setting{hint}", None, "code")

    def problem(self, path: SettingPath, message: str) -> Problem:
        """A problem that only the reader of a setting sees, such as a wrong cron expression, under the user's name."""
        node, given = find(self.inputs.tree, path), self.values.get(path)
        if given is None:
            return Problem(env_name(self.inputs.tree, path), message)
        shown = node.show(given.raw) if isinstance(node, Leaf) else None
        return Problem(given.origin.name, message, shown, str(given.origin))

    def with_given(self, section: str, values: Mapping[str, Any] | BaseModel) -> Loaded:
        """The settings once a factory has made what the code gives to a section: below files and environment, as ever.

        Of a model, what was set counts. Raises ConfigError.
        """
        findings = Findings(warnings=list(self.warnings))
        made = Expander(self.inputs.tree, findings, app_known=True).code(values, (section,))
        return build(replace(self.inputs, givens=(*self.inputs.givens, *made)), findings)

    def with_names(
        self,
        *,
        jobs: Iterable[str] | None = None,
        pools: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
    ) -> Loaded:
        """The settings once the names of the application's jobs (handlers and schedules), pools or queues are known.

        `core.jobs`, `core.queue_limits`, the ages of queues in health and the pools' overrides then have real names.
        Raises ConfigError for a name that nothing has and for an environment name that could mean two.
        """
        given = zip(BY_NAME, (jobs, pools, queues, queues), strict=True)
        told = {group: tuple(names) for group, names in given if names is not None}
        inputs = replace(self.inputs, names={**self.inputs.names, **told})
        return build(inputs, Findings(warnings=list(self.warnings)))


def build(inputs: Inputs, findings: Findings) -> Loaded:
    """Merge, validate and check. Raises ConfigError with what `findings` holds already and everything new."""
    givens: list[Given] = list(inputs.givens)
    for group in BY_NAME:
        givens = settle_names(givens, group, inputs.names.get(group), findings)
    values = effective(inputs.tree, givens, findings)
    check_rules(values, findings)
    core = validated(Settings, (), inputs.tree, values, findings)
    values = {**values, **_shared(core, values)}
    made = {name: validated(model, (name,), inputs.tree, values, findings) for name, model in inputs.models.items()}
    if core is None or findings.problems:
        raise ConfigError(findings.problems)
    return Loaded(
        core,
        {name: model for name, model in made.items() if model is not None},
        {file_key(inputs.tree, path): given.origin for path, given in values.items()},
        tuple(findings.warnings),
        inputs,
        values,
    )


def _shared(core: Settings | None, values: Mapping[SettingPath, Given]) -> dict[SettingPath, Given]:
    """What module options take from the worker's own settings: the same setting, or one that they follow."""
    if core is None:
        return {}
    wanted = {**SAME, **{path: target for path, target in FOLLOWS.items() if path not in values}}
    return {
        path: replace(values[target], path=path, value=getattr(core, target[0]))
        for path, target in wanted.items()
        if target in values
    }
