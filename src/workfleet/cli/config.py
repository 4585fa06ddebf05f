"""`workfleet config show|check`: the settings, each with where it comes from."""

from __future__ import annotations

import traceback

import click

from ..app.checking import check as check_declared
from ..app.composition import Composition
from ..app.log_options import check_files
from ..errors import ConfigError, Problem
from ..settings.loaded import Loaded
from ..settings.report import as_json as settings_documents
from ..settings.report import check_text, show_text
from .failures import tell, where_it_failed
from .located import locator_of, settings_of
from .options import CONTEXT, Where, app_argument, json_option
from .output import lines_of, write, write_json
from .project import composition_of

_GIVEN = click.option("--given", is_flag=True, help="Leave out what has its default.")


@click.group("config", context_settings=CONTEXT)
def config() -> None:
    """Show and check the settings.

    \b
    Examples:
      workfleet config show --given
      workfleet config check app.py
    """


@config.command("show")
@_GIVEN
@json_option
@app_argument
def show(*, where: Where, given: bool, as_json: bool) -> int:
    """Every setting with its value and where that comes from. Secrets are masked.

    \b
    Examples:
      workfleet config show
      workfleet config show app.py --given
      WORKER_LEASE=10s workfleet config show --json | jq 'select(.origin == "environment")'
    """
    loaded, *_ = _loaded(where)
    if not as_json:
        write(lines_of(show_text(loaded, given_only=given)))
        return 0
    for row in settings_documents(loaded):
        if not given or row["origin"] != "default":
            write_json(row)
    for warning in loaded.warnings:
        tell(f"warning: {warning}")
    return 0


@config.command("check")
@app_argument
def check(*, where: Where) -> int:
    """Check the settings and what the application declares. Exits 78 with all that is wrong, and starts nothing.

    It says what `workfleet run` would say before it opens the store: of handlers, schedules, pools, guards, injection
    and queues. No provider, hook or constructor of the application is called.

    \b
    Example:
      workfleet config check app.py && workfleet run app.py
    """
    loaded, composition, locator = _loaded(where)
    if composition is not None and locator is not None:
        _check(composition, locator)
    else:
        check_files(loaded)
    write(lines_of(check_text(loaded)))
    return 0


def _check(composition: Composition, locator: str) -> None:
    try:
        check_declared(composition, locator)
    except ConfigError:
        raise
    except Exception as error:  # the boundary around hints and signatures of the user's code, which may be anything
        place = where_it_failed("".join(traceback.format_exception(error)))
        raise ConfigError(Problem("app", f"the application cannot start: {place}", locator)) from error


def _loaded(where: Where) -> tuple[Loaded, Composition | None, str | None]:
    """With the sections of the application's own modules where it is known which application it is."""
    loaded = settings_of(where)
    locator = locator_of(where, loaded)
    if locator is None:
        tell("no application is named (APP, WORKER_APP or the settings file): only the worker's own settings are read")
        return loaded, None, None
    composition = composition_of(locator, where)
    return composition.loaded, composition, locator
