"""Options that several commands share, and what they come to: `Where` says which application a command is about."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from .failures import DEBUG

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

F = TypeVar("F", bound=Callable[..., Any] | click.Command)
Command = Callable[..., int | None]


@dataclass(frozen=True)
class Where:
    """Which application, and what the command line says of its settings file and its store."""

    app: str | None
    config: Path | None = None
    store: str | None = None


def _switch_debug_on(_context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted:
        # In the environment, because workers are to tell more, too.
        os.environ[DEBUG] = "1"


def debug_option(command: F) -> F:
    """`--debug`: show tracebacks."""
    return click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_switch_debug_on,
        help=f"Show where an error comes from, too. ({DEBUG}=1)",
    )(command)


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document a line.")


queue_option = click.option(
    "--queue", metavar="NAME", help="The queue of the job: where BullMQ made the ids, several queues have the same."
)


def app_argument(command: Command) -> Command:
    """`[APP]` or `--app APP`, and the options that go with it; the command gets `where`."""
    located = _with_where(command)

    @click.argument("app", required=False)
    @_app_option("named")
    @wraps(located)
    def either(*, app: str | None, named: str | None, **rest: Any) -> int | None:
        if app is not None and named is not None and app != named:
            raise click.UsageError(f"{app} and --app {named}: name one application")
        return located(app=named if app is None else app, **rest)

    return either


def app_option(command: Command) -> Command:
    """`--app APP`, and the options that go with it; the command gets `where`."""
    return _app_option("app")(_with_where(command))


def _app_option(name: str) -> Callable[[Command], Command]:
    return click.option("-a", "--app", name, metavar="APP", help="module:attr, or a file such as app.py. (WORKER_APP)")


def _with_where(command: Command) -> Command:
    @click.option(
        "--config",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="The settings file, if not workfleet.yaml. (WORKER_CONFIG)",
    )
    @click.option("--store", metavar="URL", help="Where jobs are kept, if not .workfleet/<app>.db. (WORKER_STORE)")
    @debug_option
    @wraps(command)
    def with_where(*, app: str | None, config: Path | None, store: str | None, **rest: Any) -> int | None:
        return command(where=Where(app, config, store), **rest)

    return with_where
