"""BullMQ's job schedulers: whoever claims a scheduler's job makes its next one first, else it never fires again.

What follows is computed here as BullMQ v6 does it in a worker, and applied by `lua/scheduler_next.lua`, which changes
nothing unless the job is the one that the scheduler waits for: so it may be told twice."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from .asking import Asking
from .crons import next_run
from .records import Row
from .scripts import Script

_BORN = b"repeat:"
_LEGACY = re.compile(r"[^:]*:[^:]*:\d*:[^:]*:(?:.* .*|\d+)", re.DOTALL)
"""What the keys of v4's repeatable jobs look like: those have no scheduler unless the store says so."""
_OPTIONS = msgspec.json.Decoder(dict[str, Any])


class JobSchedulers:
    """Moves schedulers on. `zone` is where patterns without a time zone are meant: as for Node, this machine's."""

    def __init__(self, asking: Asking, zone: str | None = None) -> None:
        self._asking, self._zone = asking, zone
        self._next = Script.load("scheduler_next")

    async def advance(self, rows: Sequence[Row], now_ms: int) -> dict[tuple[str, str], str]:
        """Make the next jobs of the schedulers that wait for these jobs.

        Returns, by queue and id, why that cannot be done for a job: it must not run then, for its scheduler would never
        fire again; once it is retried where its options can be read, the scheduler goes on."""
        steps, refused = [], dict[tuple[str, str], str]()
        for row in rows:
            if not row[1].startswith(_BORN):
                continue
            try:
                step = _step(row, now_ms, self._zone or _here())
            except (ValueError, TypeError, msgspec.MsgspecError, RecursionError) as error:
                at = row[0].decode(errors="backslashreplace"), row[1].decode(errors="backslashreplace")
                refused[at] = f"the next run of its job scheduler cannot be computed: {error}"
                continue
            if step is not None:
                steps.append(step)
        if steps:
            await self._asking.change(self._next, {"steps": steps})
        return refused


def _step(row: Row, now_ms: int, zone: str) -> dict[str, Any] | None:
    """What the script needs to make the next job; None where the scheduler ends, or where there is none."""
    queue, job_id, _, _, _, fields = row
    options = _OPTIONS.decode(fields[2] or b"{}")
    repeat = options.get("repeat")
    if not isinstance(repeat, dict):
        return None
    scheduler = job_id.decode().removeprefix("repeat:").rpartition(":")[0]
    every, pattern = repeat.get("every"), repeat.get("pattern")
    if bool(every) == bool(pattern):
        raise ValueError(f"it needs one of every and pattern, and has {'both' if every else 'neither'}")
    count, limit = (repeat.get("count") or 0) + 1, repeat.get("limit")
    end = _instant(repeat.get("endDate"))
    if (limit is not None and count > limit) or (end is not None and now_ms > end):
        return None
    # A job may run before its time, by a promotion: what follows is after its own time.
    base = max(options.get("prevMillis") or 0, now_ms)
    start = _instant(repeat.get("startDate"))
    due = None
    if pattern:
        due = next_run(pattern, base if start is None else max(base, start), _named(repeat.get("tz") or zone))
        if due is None or (end is not None and due > end):
            return None
    said = {name: value for name, value in repeat.items() if name not in ("immediately", "offset")}
    offset = repeat.get("offset") if every else None
    said |= {"count": count, "offset": offset or None, "startDate": start, "endDate": end}
    backoff = options.get("backoff")
    if isinstance(backoff, int | float):
        options["backoff"] = {"type": "fixed", "delay": backoff}
    options = {"attempts": 0, **options, "timestamp": now_ms, "prevMillis": due, "repeatJobKey": scheduler}
    return {
        "queue": queue.decode(),
        "id": job_id.decode(),
        "scheduler": scheduler,
        "legacy": _LEGACY.fullmatch(scheduler) is not None,
        "next": due,
        "opts": _without_nothing({**options, "repeat": said}),
    }


def _without_nothing(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nothing(value) if isinstance(value, dict) else value
        for name, value in options.items()
        if value is not None
    }


def _instant(said: object) -> int | None:
    """A date as JavaScript takes it: milliseconds, or text; nothing and 0 are none."""
    if not said:
        return None
    if isinstance(said, int | float):
        return int(said)
    at = datetime.fromisoformat(str(said))
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


def _named(zone: str) -> str:
    """A zone's name; Node takes these two in any case."""
    return "UTC" if zone.lower() in ("utc", "gmt") else zone


def _here() -> str:
    """This machine's time zone, as Node finds it; UTC where it has no name."""
    if named := os.environ.get("TZ", "").removeprefix(":"):
        return named
    _, found, name = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")
    return name if found else "UTC"
