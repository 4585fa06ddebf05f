"""The application that a command is about, imported, and its store. Nothing else in `cli/` imports an application."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TypeVar

from ..app.client import Client, Session
from ..app.composition import Composition, compose
from ..app.locate import load_app
from ..app.loops import run_loop
from ..clock import SystemClock
from ..errors import ConfigError, Problem, StoreUnavailable, UsageError
from ..events import Event
from ..ports.stores import Store
from ..settings.loaded import Loaded
from ..settings.store import sqlite_path, store_scheme
from ..stores.open import open_store
from .failures import where_it_failed
from .located import locator_of, no_app, settings_of
from .options import Where

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """The application whose store a command works on. Without a `composition` only its name is known."""

    app: str
    loaded: Loaded
    run_first: str
    """The command that makes its store."""
    composition: Composition | None = None

    @property
    def store_url(self) -> str:
        return self.loaded.store_url(self.app)


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
            raise UsageError(no_app())
        return Target(loaded.core.app_name, loaded, run_first)
    composition = composition_of(locator, where)
    return Target(composition.app.name, composition.loaded, run_first, composition)


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
            Session.of(
                the_store,
                target.app,
                target.loaded,
                clock=clock,
                publish=_nobody_listens,
                owner="command line",
                queues=target.composition.registry.queues.by_name if target.composition else None,
            )
        )
    finally:
        await store.close()


def with_client(target: Target, use: Callable[[Client], Awaitable[T]]) -> T:
    """Open the application's store, use it, and close it. Raises as `opened`."""

    async def run() -> T:
        async with opened(target) as client:
            return await use(client)

    return run_loop(run)


def _check_there(url: str, target: Target) -> None:
    if store_scheme(url) == "memory":
        raise StoreUnavailable(url, "it lives in one process only, so there is nothing to be seen of it from here")
    if store_scheme(url) == "sqlite" and not sqlite_path(url).exists():
        advice = f"Run the application first: {target.run_first}"
        if target.loaded.names_store:
            advice += "\nOr correct its address, which --store, WORKER_STORE or a settings file gives"
        raise StoreUnavailable(url, "it does not exist yet", advice)


def _nobody_listens(_event: Event) -> None:
    """A command that looks writes no log."""
