"""Asks before something is done that cannot be undone, or to many."""

from __future__ import annotations

import sys

import click

from ..errors import UsageError
from .failures import tell
from .options import Command

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


def asking_options(command: Command) -> Command:
    """`--dry-run` and `--yes`."""
    return dry_run_option(yes_option(command))


def agreed(question: str, *, yes: bool) -> bool:
    """Whether a person agrees; with `yes`, nobody is asked. Raises `UsageError` where nobody can be asked."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody can be asked, since standard input is no terminal: say --yes to do it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    tell("nothing was done")
    return False
