"""`workfleet run`: the supervisor of an application on this machine. No user code is imported in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import click

from ..app.log_options import SupervisorLogs, check_files
from ..app.supervisor.options import SupervisorOptions
from ..errors import ConfigError, UsageError
from ..settings.loaded import Loaded
from ..settings.sections import LogSettings
from ..settings.store import store_scheme
from .located import required_locator, settings_of
from .options import Command, Where, app_argument
from .supervise import supervise

_LEVELS = click.Choice(["debug", "info", "warning", "error", "critical"], case_sensitive=False)
_FORMATS = click.Choice(["auto", "console", "json"], case_sensitive=False)


def log_options(command: Command) -> Command:
    """`--log-level` and `--log-format`."""
    levels = click.option("--log-level", type=_LEVELS, help="Lowest level that is written. (WORKER_LOG__LEVEL)")
    formats = click.option("--log-format", type=_FORMATS, help="auto: console on a terminal. (WORKER_LOG__FORMAT)")
    return levels(formats(command))


@click.command("run")
@click.option("--processes", metavar="N", type=click.IntRange(1, 1024), help="Worker processes. (WORKER_PROCESSES, 1)")
@click.option("--queues", metavar="A,B", help="Only these queues. (WORKER_QUEUES)")
@click.option("--until-idle", is_flag=True, help="End when nothing is left to do, with a summary.")
@click.option("--fail-on-failed", is_flag=True, help="With --until-idle: exit 1 when a job failed.")
@click.option("--shutdown-timeout", metavar="DURATION", help="For running jobs to end. (WORKER_SHUTDOWN_TIMEOUT, 25s)")
@log_options
@app_argument
def run(
    *,
    where: Where,
    processes: int | None,
    queues: str | None,
    until_idle: bool,
    fail_on_failed: bool,
    shutdown_timeout: str | None,
    log_level: str | None,
    log_format: str | None,
) -> int:
    """Run the fleet of an application on this machine: a supervisor, and the workers that it keeps alive.

    It runs until SIGTERM or SIGINT (Ctrl-C), which let running jobs end; a second one stops at once. Exit codes: 0
    drained, 1 something refused to stop or every worker keeps dying, 3 no store, 78 wrong configuration, 130 second
    signal.

    \b
    Examples:
      workfleet run app.py
      workfleet run shop.main:app --processes 4 --queues emails,media
      workfleet run --until-idle        # what a CI job or a cron line wants
    """
    if fail_on_failed and not until_idle:
        raise UsageError("--fail-on-failed needs --until-idle: without it, the run does not end with its jobs")
    given = {
        "store": where.store,
        "processes": processes,
        "queues": queues,
        "shutdown_timeout": shutdown_timeout,
        "log.level": log_level,
        "log.format": log_format,
    }
    loaded = settings_of(where, given)
    locator = required_locator(where, loaded)
    _check_store(loaded)
    options = SupervisorOptions(
        app=locator,
        processes=loaded.core.processes,
        until_idle=until_idle,
        fail_on_failed=fail_on_failed,
        queues=tuple(loaded.core.queues) if queues is not None and loaded.core.queues else None,
        config=_for_workers(where, given),
        environ=_import_path(where, loaded),
    )
    check_files(loaded)
    logs = SupervisorLogs(loaded.section("log", LogSettings))
    try:
        # The standard loop: uvloop keeps SIGCHLD, by which the supervisor sees its children end, to itself.
        return asyncio.run(supervise(options, logs.hear))
    finally:
        logs.close()


def _check_store(loaded: Loaded) -> None:
    if loaded.core.store is not None and store_scheme(loaded.core.store) == "memory":
        message = "it lives in one process, and `workfleet run` is several: leave it out, or call `app.run()` yourself"
        raise ConfigError(loaded.problem(("store",), message))


def _for_workers(where: Where, given: Mapping[str, object]) -> dict[str, object]:
    """What the workers are to know of the command line; queues and processes are the supervisor's own to say."""
    passed = {name: value for name, value in given.items() if value is not None and name not in ("queues", "processes")}
    return passed | ({"config": str(where.config.absolute())} if where.config is not None else {})


def _import_path(where: Where, loaded: Loaded) -> dict[str, str]:
    """A module that the project's settings name is imported from the project's root, wherever the command is given."""
    if where.app is not None or loaded.project == Path.cwd():
        return {}
    parts = [str(loaded.project), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(parts)}
