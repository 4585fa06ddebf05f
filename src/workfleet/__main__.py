"""`python -m workfleet` is the `workfleet` command."""

from __future__ import annotations

from workfleet.cli.entry import main

if __name__ == "__main__":
    main()
