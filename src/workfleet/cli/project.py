"""Which application a command is about, and its store. The application is imported here and nowhere else in `cli/`.

`run` and `dev` do not import it: only `settings_of` and `locator_of` are for them.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..app.client import Client, Session
from ..app.composition import Composition, compose
from ..app.locate import is_file, load_app, split
from ..clock import SystemClock
from ..errors import ConfigError, Problem, StoreUnavailable, UsageError
from ..events import Event
from ..ports.stores import Store
from ..settings.given import Source
from ..settings.load import load
from ..settings.loaded import Loaded
from ..settings.store import sqlite_path, store_scheme
from ..stores.open import open_store
from .failures import where_it_failed
from .options import Where


@dataclass(frozen=True)
class Target:
    """The application whose store a command works on. Without a `composition` only its name is known."""

    app: str
    loaded: Loaded
    run_first: str
    """The command that makes its store."""
    locator: str | None = None
    composition: Composition | None = None

    @property
    def store_url(self) -> str:
        return self.loaded.store_url(self.app)


def settings_of(where: Where, **given: Any) -> Loaded:
    """The settings without the application's own sections; `given` is what the command line says, `log_level` of
    `log.level`. Raises ConfigError."""
    cli = {"store": where.store, **given}
    return load(cli=cli, config=where.config, app_known=False)


def locator_of(where: Where, loaded: Loaded) -> str | None:
    """Where the application is: what the command says, else the settings. A file that a settings file names is looked
    for from the project's root."""
    if where.app is not None:
        return where.app
    locator = loaded.core.app
    if locator is None:
        return None
    origin = loaded.origins.get("app")
    place, attribute = split(locator)
    if origin is None or origin.source is not Source.FILE:
        return locator
    if is_file(place):
        return f"{loaded.project / place}:{attribute}"
    if (root := str(loaded.project)) not in sys.path:
        sys.path.insert(0, root)
    return locator


def required_locator(where: Where, loaded: Loaded) -> str:
    """As `locator_of`. Raises UsageError, which says the ways to name an application."""
    locator = locator_of(where, loaded)
    if locator is None:
        raise UsageError(_no_app())
    return locator


def composition_of(locator: str, where: Where) -> Composition:
    """Import the application and load its settings. Raises ConfigError, also for whatever its code raises."""
    try:
        # Standard output is for what the command lists, not for what the application prints while it is imported.
        with redirect_stdout(sys.stderr):
            return compose(load_app(locator), cli={"store": where.store}, config=where.config)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # the boundary around the user's modules
        place = where_it_failed("".join(traceback.format_exception(error)))
        raise ConfigError(Problem("app", f"it cannot be imported: {place}", locator)) from error


def target_of(where: Where) -> Target:
    """The application that a command is about, imported where it is known where it is. Raises ConfigError and
    UsageError."""
    run_first = f"workfleet run {where.app}" if where.app else "workfleet run"
    loaded = settings_of(where)
    locator = locator_of(where, loaded)
    if locator is None:
        if loaded.core.app_name is None:
            raise UsageError(_no_app())
        return Target(loaded.core.app_name, loaded, run_first)
    composition = composition_of(locator, where)
    return Target(composition.app.name, composition.loaded, run_first, locator, composition)


@asynccontextmanager
async def opened(target: Target) -> AsyncIterator[Client]:
    """A client of the application's store. Raises StoreUnavailable, also for a store that does not exist yet."""
    url, clock = target.store_url, SystemClock()
    _check_there(url, target)
    store = await open_store(url, app=target.app, clock=clock, create=False)

    async def the_store() -> Store:
        return store

    try:
        yield Client.attached(
            Session.of(the_store, target.app, target.loaded, clock=clock, publish=_nobody_listens, owner="command line")
        )
    finally:
        await store.close()


def _check_there(url: str, target: Target) -> None:
    if store_scheme(url) == "memory":
        raise StoreUnavailable(url, "it lives in one process only, so there is nothing to be seen of it from here")
    if store_scheme(url) == "sqlite" and not sqlite_path(url).exists():
        raise StoreUnavailable(url, "it does not exist yet", f"Run the application first: {target.run_first}")


def _nobody_listens(_event: Event) -> None:
    """A command that looks writes no log."""


def _no_app() -> str:
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
