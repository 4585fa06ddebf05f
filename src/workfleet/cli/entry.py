"""Where the `workfleet` command begins. Imports nothing heavy before it knows that it is not `probe`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["probe"]:
        # An exec probe runs every few seconds in every container: it must cost hardly more than Python itself.
        from workfleet.cli.probe import main as probe

        sys.exit(probe(arguments[1:]))
    from workfleet.cli.main import main as everything_else

    sys.exit(everything_else(arguments))
