"""What a run's calls of pools take along for logging: which run it is, and a way back for lines that its job keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from workfleet.observe.logs.context import Keep, current_job, current_keep
from workfleet.observe.logs.rendering import LogLine, kept_text
from workfleet.pools.calls import Carried
from workfleet.pools.child_channel import Closed
from workfleet.pools.child_context import current

_RUN: Final = "run"
"""The name, among the facts of a call, of the run's fields."""


class KeptLine(NamedTuple):
    """A line on its way from a child to the job that keeps it."""

    text: str


class Keeper:
    """Hears what calls say, and keeps the lines that were logged there; nothing else of a call is anybody's."""

    def __init__(self, keep: Keep | None) -> None:
        self._keep = keep

    def log(self, entry: Any) -> None:
        if self._keep is not None and isinstance(entry, KeptLine):
            self._keep(entry.text)

    def progress(self, value: Any) -> None:
        """A method of a pool has none to say it of."""


def carry() -> Carried | None:
    """What goes along with a call that is made here; None outside of runs."""
    run = current_job()
    return Carried({_RUN: run}, Keeper(current_keep()), str(run.get("job_id", ""))) if run else None


def call_fields() -> Mapping[str, object]:
    """The fields of the run whose call this code works on; {} where there is none."""
    call = current()
    found: Mapping[str, object] = {} if call is None else call.facts.get(_RUN, {})
    return found


def keep_line(line: LogLine) -> None:
    """Keep a line with the job whose code says it, be it here or in a child; outside of runs, with none."""
    keep = current_keep()
    if keep is not None:
        keep(kept_text(line))
        return
    call = current()
    if call is None or _RUN not in call.facts:
        return
    try:
        call.log(KeptLine(kept_text(line)))
    except (Closed, OSError):  # the parent has gone, and with it the run
        pass
