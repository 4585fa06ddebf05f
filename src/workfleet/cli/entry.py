"""Where the `workfleet` command begins. Imports nothing heavy before it knows that it is not `probe`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    _open_missing_streams()
    arguments = sys.argv[1:]
    if arguments[:1] == ["probe"]:
        # An exec probe runs every few seconds in every container: it must cost hardly more than Python itself.
        from workfleet.cli.probe import main as probe

        sys.exit(probe(arguments[1:]))
    from workfleet.cli.main import main as everything_else

    sys.exit(everything_else(arguments))


def _open_missing_streams() -> None:
    """Started with a standard stream closed, the next file that is opened would take its place and get the log."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115 - as above
