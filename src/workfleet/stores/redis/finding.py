"""Finding jobs in Redis: BullMQ's layout has no index over all states, so ids are listed, and read page by page."""

from __future__ import annotations

import heapq
from typing import Any

from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobQuery

from ..matching import matches
from .asking import Asking
from .jobids import shown_id, stored_id
from .records import record_of
from .scripts import Script

_LISTED, _READ = 1_000, 500
"""How many jobs one call looks at, so that no other one waits for long."""
Place = tuple[int, str, str]
"""Creation, id and queue of a job: its place in the order, from the end."""


async def find_jobs(asking: Asking, query: JobQuery, *, listing: Script, get: Script) -> list[JobRecord]:
    """The meaning is `JobStore.find`'s. A job that changes meanwhile is shown as it is when its page is read."""
    wanted, found = query.offset + query.limit, list[JobRecord]()
    for most in (wanted + _LISTED, None):
        newest = _Newest(most, query.created_from_ms)
        await _list(asking, query, listing, newest)
        found = await _read(asking, query, newest.order(), get)
        if len(found) >= wanted or not newest.left_out:
            break  # else what is looked for is not among the newest
    return found[query.offset : wanted]


async def _read(asking: Asking, query: JobQuery, order: list[Place], get: Script) -> list[JobRecord]:
    """As many as are asked for of those that match."""
    found: list[JobRecord] = []
    for at in range(0, len(order), _READ):
        if len(found) >= query.offset + query.limit:
            break
        jobs = [(queue, stored_id(job_id)) for _, job_id, queue in order[at : at + _READ]]
        rows = await asking.ask(get, {"jobs": jobs})
        records = (record_of(row) for (row,) in filter(None, rows))
        found += [record for record in records if matches(record, query)]
    return found


class _Newest:
    """The newest places: `most` of them at the least, or all."""

    def __init__(self, most: int | None, since_ms: int | None) -> None:
        self._found: set[Place] = set()
        self._most = most
        self.since_ms = since_ms
        """What was created before is not wanted, or not any more."""
        self.left_out = False

    def add(self, page: set[Place]) -> None:
        self._found |= page
        if self._most is not None and len(self._found) > 2 * self._most:
            newest = heapq.nlargest(self._most, self._found)
            self._found, self.since_ms, self.left_out = set(newest), newest[-1][0], True

    def order(self) -> list[Place]:
        return sorted(self._found, reverse=True)


async def _list(asking: Asking, query: JobQuery, listing: Script, newest: _Newest) -> None:
    """Page by page the places of those that the listing alone does not rule out."""
    states = None if query.states is None else [state.value for state in query.states]
    asked: dict[str, Any] = {"queue": query.queue, "states": states, "most": _LISTED}
    since, before, after = query.created_from_ms, query.created_before_ms, query.after
    while True:
        flat, ended = await asking.ask(listing, {**asked, "since": newest.since_ms})
        jobs = ((created, shown_id(job), queue.decode()) for queue, job, created in zip(*[iter(flat)] * 3, strict=True))
        newest.add(
            {
                job
                for job in jobs
                if (since is None or job[0] >= since)
                and (before is None or job[0] < before)
                and (after is None or job[:2] < after)
            }
        )
        if ended is None:
            return
        asked["from"] = [ended[0].decode(), *ended[1:]]
