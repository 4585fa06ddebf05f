"""What a person reads when a command fails: plain lines on standard error, tracebacks only with --debug."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path

import click

from ..errors import WorkfleetError

DEBUG = "WORKFLEET_DEBUG"

_FRAME = re.compile(r'^[\s|+]*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_HEAD = "Traceback (most recent call last):"


def report(error: Exception) -> int:
    """Tell what went wrong on standard error, and return the exit code that belongs to it."""
    if debugging() and not isinstance(error, click.UsageError):
        tell("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, WorkfleetError):
        tell(f"Error: {error}")
        _point(error)
        return error.exit_code
    hint = "" if debugging() else f" This is a fault of workfleet, not yours: {DEBUG}=1 shows where."
    tell(f"Error: {type(error).__name__}: {error}.{hint}")
    return 1


def _point(error: WorkfleetError) -> None:
    """The wrong part of a cron expression, with a mark below it."""
    from ..model.cron.faults import CronError  # only when something failed

    if isinstance(error, CronError) and error.column is not None:
        tell(error.pointed())


def debugging() -> bool:
    """Whether --debug or WORKFLEET_DEBUG asks for tracebacks."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def tell(text: str) -> None:
    """Write to standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def where_it_failed(trace: str) -> str:
    """A traceback's text as one place and message: `/srv/shop/app.py:3: NameError: name 'x' is not defined`.

    The place is the last one in the user's own code; where there is none, the last one.
    """
    lines = trace.strip().splitlines()
    frames = [(number, match) for number, line in enumerate(lines) if (match := _FRAME.match(line))]
    if not frames:
        return lines[-1] if lines else ""
    own = [match for _, match in frames if not _is_installed(match["file"])]
    at = (own or [frames[-1][1]])[-1]
    behind = lines[frames[-1][0] + 1 :]
    begin = next((index for index, line in enumerate(behind) if line[:1] not in ("", " ")), len(behind) - 1)
    return f"{at['file']}:{at['line']}: " + "\n".join(behind[begin:]).strip()


def without_traceback(message: str) -> str:
    """A message whose second part is a traceback, as one sentence unless debugging."""
    head, found, trace = message.partition(f"\n{_HEAD}")
    return message if not found or debugging() else f"{head} {where_it_failed(trace)}\n(--debug shows the traceback)"


def _is_installed(file: str) -> bool:
    """Whether a file is Python's, a package's or our own, so that no user would look for his mistake there."""
    if file.startswith("<"):
        return True
    path = Path(file)
    kept = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = Path(__file__).parent.parent
    return path.is_relative_to(ours) or any(path.is_relative_to(folder) for folder in kept)
