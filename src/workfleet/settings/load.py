"""`load()`: read every source, report everything that is wrong at once, or give the settings back as `Loaded`.

Sources, the highest first: command line, environment, .env.local, .env, the settings file, what the code gives, and the
defaults.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from workfleet.errors import ConfigError, Problem

from .core import Settings
from .envfiles import read_env_files
from .environment import Environment
from .expand import Expander, command_line_origin
from .files import find_config
from .given import Findings, Given, Origin, SettingPath, Source, fold
from .loaded import Inputs, Loaded, build
from .root import project_root
from .sections import BUILT_IN
from .tree import tree

CORE = ""
"""The key in `given` of what the code gives to settings that belong to no section."""


def load(
    sections: Mapping[str, type[BaseModel]] | None = None,
    *,
    given: Mapping[str, Mapping[str, Any] | BaseModel] | None = None,
    cli: Mapping[str, Any] | None = None,
    environ: MutableMapping[str, str] | None = None,
    cwd: Path | None = None,
    config: Path | None = None,
    app_known: bool = True,
) -> Loaded:
    """Read the settings.

    `sections` are the application's own, by module name; those of the built-in modules are always known. `given` is
    what the code gives, by section (`CORE` for the rest); `cli` what the command line gives, by dotted path, None
    meaning not given. `environ` (os.environ) receives what the .env files of `cwd` (the working directory) say.
    `config` is --config. A process that does not load the application passes `app_known=False`: what may be a section
    of its own is then left alone.

    Raises ConfigError with every problem there is.
    """
    environ = os.environ if environ is None else environ
    findings = Findings()
    known = _sections(sections or {}, findings)
    root = tree(known)
    here = _working_directory(cwd)
    project = project_root(here)
    file_origins = read_env_files(here, environ, findings)
    expander = Expander(root, findings, app_known=app_known)
    asked = list(_asked_files(config, environ, file_origins))
    file = find_config(asked, here, project, findings)
    givens: list[Given] = [
        *_from_code(expander, given or {}),
        *(expander.mapping(file.content, file.origin) if file else ()),
        *Environment(root, expander, file_origins, findings, app_known=app_known).read(environ),
        *_from_command_line(expander, cli or {}),
    ]
    if config is not None:
        givens.append(Given(("config",), str(config), str(config), asked[0][1]))
    return build(Inputs(known, root, tuple(givens), project, {}), findings)


def load_isolated(
    sections: Mapping[str, type[BaseModel]],
    *,
    given: Mapping[str, Mapping[str, Any] | BaseModel],
    said: Mapping[str, Any],
    place: str,
) -> Loaded:
    """The settings of what the code gives, with what a test says put over it: no environment and no file is read.

    `said` is nested as in a settings file, and stands for every other source; `place` is where it was written. Raises
    ConfigError with every problem there is.
    """
    findings = Findings()
    known = _sections(sections, findings)
    root = tree(known)
    expander = Expander(root, findings, app_known=True)

    def origin(path: SettingPath) -> Origin:
        return Origin(Source.COMMAND_LINE, place, ".".join(path))

    givens = [*_from_code(expander, given), *expander.mapping(said, origin)]
    return build(Inputs(known, root, tuple(givens), _working_directory(None), {}), findings)


def _working_directory(cwd: Path | None) -> Path:
    try:
        return (cwd or Path()).absolute()
    except FileNotFoundError:
        raise ConfigError(Problem("working directory", "was deleted: change to one that exists")) from None


def _asked_files(
    config: Path | None, environ: Mapping[str, str], file_origins: Mapping[str, Origin]
) -> Iterator[tuple[Path, Origin]]:
    """The settings files that --config and WORKER_CONFIG name."""
    if config is not None:
        yield config, Origin(Source.COMMAND_LINE, "command line", "--config")
    if variable := environ.get("WORKER_CONFIG"):
        origin = Origin(Source.ENVIRONMENT, "environment", "WORKER_CONFIG")
        yield Path(variable), file_origins.get("WORKER_CONFIG", origin)


def _sections(own: Mapping[str, type[BaseModel]], findings: Findings) -> Mapping[str, type[BaseModel]]:
    """The built-in sections and those of the application whose names can be used."""
    known = dict(BUILT_IN)
    taken = {fold(name): name for name in [*Settings.model_fields, *BUILT_IN]}
    for name, model in own.items():
        if known.get(name) is model:
            continue
        if (other := taken.get(fold(name))) is not None:
            findings.problem(name, f"cannot be a section: {other} has that name; rename the module", None, "code")
        elif any(base.__module__.startswith("pydantic_settings") for base in model.__mro__):
            findings.problem(
                name,
                f"{model.__name__} reads the environment by itself: derive it from pydantic.BaseModel",
                None,
                "code",
            )
        else:
            taken[fold(name)] = name
            known[name] = model
    return known


def _from_code(expander: Expander, given: Mapping[str, Mapping[str, Any] | BaseModel]) -> Iterable[Given]:
    for section, values in given.items():
        yield from expander.code(values, () if section == CORE else (section,))


def _from_command_line(expander: Expander, cli: Mapping[str, Any]) -> Iterable[Given]:
    for name, value in cli.items():
        # click gives None for what is not given, and a tuple for what may be repeated.
        if value not in (None, ()):
            *groups, last = name.split(".")
            plain = list(value) if isinstance(value, tuple) else value
            yield from expander.mapping({last: plain}, command_line_origin, tuple(groups))
