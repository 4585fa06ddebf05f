"""The command line but for `probe`: the table of commands, and the boundary at which every error becomes an exit code.

A command's module is imported when the command is used, so that help costs no more than click. What a command does is
in its own file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from .failures import report
from .options import CONTEXT, debug_option

_COMMANDS = {
    "Run": {
        "run": ("run:run", "Run the fleet of an application on this machine."),
        "dev": ("dev:dev", "Run one worker, and start it again when a file changes."),
        "enqueue": ("enqueue:enqueue", "Put a job on a queue."),
    },
    "Look and act": {
        "status": ("status:status", "Whether the fleet runs, and what it has to do."),
        "queues": ("queues:queues", "The queues and their jobs by state; pause, resume and purge them."),
        "jobs": ("jobs:jobs", "List and show jobs; retry, cancel, delete and promote them."),
        "schedules": ("schedules:schedules", "List, show, preview, trigger, add, pause, resume and remove schedules."),
        "locks": ("locks:locks", "List the locks that are held; release one."),
        "workers": ("workers:workers", "List the fleet's workers; quiet, stop and recycle them."),
        "pools": ("pools:pools", "List the pools of the workers and their children; scale and recycle them."),
        "metrics": ("metrics:metrics", "List, query and export what was measured."),
        "doctor": ("doctor:doctor", "Whether the store and the fleet are what they should be."),
        "probe": ("", "Check liveness, readiness or startup, for containers."),
    },
    "Project": {
        "init": ("init:init", "Make a small project that works."),
        "config": ("config:config", "Show and check the settings."),
        "cron": ("cron:cron", "Explain a cron expression, and when it is due next."),
        "bench": ("bench:bench", "Measure the store."),
        "version": ("version:version", "Versions of what is installed."),
    },
}


class _Commands(click.Group):
    """A group that imports a command when it is used."""

    def __init__(self) -> None:
        super().__init__(
            "workfleet",
            help="Background work for a fleet of machines: queues, schedules, process pools.",
            epilog="`workfleet COMMAND -h` explains a command. APP is module:attr or a file such as app.py; "
            "WORKER_APP or the settings file can name it once for all.",
            context_settings=CONTEXT,
        )
        # Stand-ins: click offers their names when one is mistyped.
        self.commands = {name: click.Command(name) for names in _COMMANDS.values() for name in names}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "probe":
            return _probe
        for names in _COMMANDS.values():
            if cmd_name in names:
                module, _, attribute = names[cmd_name][0].partition(":")
                found = getattr(import_module(f".{module}", __package__), attribute)
                assert isinstance(found, click.Command)
                return found
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in names.items()])


@click.command("probe", add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _probe(*, arguments: tuple[str, ...]) -> int:
    """Reached only as `workfleet --debug probe …`: `entry` dispatches it before this module is imported."""
    from .probe import main as probe

    return probe(list(arguments))


def _show_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted:
        from .. import __version__

        click.echo(f"workfleet {__version__}")
        ctx.exit()


def _commands() -> click.Group:
    group: click.Group = debug_option(_Commands())
    show = click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version)
    return show(group)


def main(argv: Sequence[str]) -> int:
    """Run a command line (without the program's name). Returns the exit code; nothing but SystemExit of click escapes.

    0 ok, 1 the check failed, 2 usage, 3 store unreachable, 4 not found, 78 bad configuration, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name in a job must not be able to fail a listing on a terminal of another encoding.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough. The interpreter flushes once more at its end, which must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _run(argv: Sequence[str]) -> int:
    group = _commands()
    try:
        with group.make_context("workfleet", list(argv)) as context:
            return int(group.invoke(context) or 0)
    except click.exceptions.Exit as done:
        return done.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of the process: a person reads this, never a traceback
        return report(error)
