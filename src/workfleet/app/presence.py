"""Whether the supervisor that a status document names is gone, as far as it can be seen from here.

Standard library only, and little of it: `workfleet probe` imports this and must start fast.
"""

from __future__ import annotations

import os

from workfleet.supervision.seen import hidden, started, with_namespace


def why_gone(status: dict[str, object], boot: str) -> str:
    """Why nobody can be expected to write this document again; "" where its supervisor runs, or where that cannot be
    seen: it is of another machine or container, or this is no Linux. `boot` is the own boot's id."""
    facts = status.get("supervisor")
    if not (boot and isinstance(facts, dict) and status.get("host") == os.uname().nodename):
        return ""
    pid = facts.get("pid")
    try:
        if facts.get("boot_id") != with_namespace(boot) or not isinstance(pid, int):
            return ""
        there = started(pid)
        runs = hidden(pid) if there is None else there == facts.get("started")
    except (OSError, ValueError, IndexError):
        return ""
    return "" if runs else f"the supervisor (process {pid}) is gone without a word"
