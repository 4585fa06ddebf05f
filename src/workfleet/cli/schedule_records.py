"""The schedules that the store has, as the commands about them find them."""

from __future__ import annotations

from collections.abc import Sequence

from ..app.client import Client
from ..model.schedules import ScheduleRecord
from ..schedules.info import ScheduleInfo
from ..schedules.schedules import unknown_schedules

OVERDUE_MS = 15_000
"""A slot that should have fired no longer ago than this is not overdue: a worker may be busy for a moment."""


async def the_schedules(client: Client, names: Sequence[str]) -> list[ScheduleRecord]:
    """The schedules of these names, in their order. Raises `NotFound` for all that are not there."""
    store = await client.session.store()
    wanted = list(dict.fromkeys(names))
    found = await store.schedules.get(wanted)
    missing = [name for name, record in zip(wanted, found, strict=True) if record is None]
    if missing:
        raise unknown_schedules(missing, [record.name for record in await store.schedules.all()])
    return [record for record in found if record is not None]


def state_of(info: ScheduleInfo) -> str:
    """Whether it fires, in a word or two."""
    overdue_ms = 0 if info.overdue is None else info.overdue.total_seconds() * 1000
    words = {
        "orphaned": info.orphaned,
        "disabled": not info.enabled,
        "paused": info.paused,
        "overdue": overdue_ms > OVERDUE_MS,
        "running": info.running,
    }
    return ", ".join(word for word, holds in words.items() if holds) or "on"
