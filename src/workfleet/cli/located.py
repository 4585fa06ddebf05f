"""Where the application of a command is, by the command line and the settings; it is not imported here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..app.locator import is_file, split
from ..errors import UsageError
from ..settings.given import Source
from ..settings.load import load
from ..settings.loaded import Loaded
from .options import Where


def settings_of(where: Where, given: Mapping[str, Any] | None = None) -> Loaded:
    """The settings without the application's own sections. `given` is what else the command line says, by dotted path.
    Raises ConfigError."""
    return load(cli={"store": where.store, **(given or {})}, config=where.config, app_known=False)


def locator_of(where: Where, loaded: Loaded) -> str | None:
    """Where the application is: what the command says, else the settings. A file that a settings file names is looked
    for from the project's root. Raises UsageError for an empty name."""
    if where.app is not None:
        if not where.app.strip():
            raise UsageError("the application's name is empty: leave it out, or write a file or module:attr")
        return where.app
    locator = loaded.core.app
    if locator is None:
        return None
    origin = loaded.origins.get("app")
    if origin is None or origin.source is not Source.FILE:
        return locator
    place, attribute = split(locator)
    if is_file(place):
        return f"{loaded.project / place}:{attribute}"
    if (root := str(loaded.project)) not in sys.path:
        sys.path.insert(0, root)
    return locator


def required_locator(where: Where, loaded: Loaded) -> str:
    """As `locator_of`. Raises UsageError, which says the ways to name an application."""
    locator = locator_of(where, loaded)
    if locator is None:
        raise UsageError(no_app())
    return locator


def no_app() -> str:
    """The ways to name an application."""
    context = click.get_current_context()
    by_argument = any(isinstance(param, click.Argument) and param.name == "app" for param in context.command.params)
    command = f"{context.command_path} {'app.py' if by_argument else '--app app.py'}"
    here = "      (app.py is here)" if Path("app.py").is_file() else ""
    return (
        "which application? Name it in one of three ways, as a file or as module:attr:\n"
        f"  {command}{here}\n"
        "  WORKER_APP=app.py in the environment or in .env\n"
        '  [tool.workfleet] app = "app.py" in pyproject.toml, or `app: app.py` in workfleet.yaml'
    )
