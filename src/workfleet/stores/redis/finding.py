"""Finding jobs in Redis: BullMQ's layout has no index over all states, so ids are listed, and read page by page."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator
from typing import Any

from workfleet.model.jobs import JobRecord
from workfleet.ports.stores import JobQuery

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
    wanted = query.offset + query.limit
    order = await _ordered(_listed(asking, query, listing), wanted if _is_plain(query) else None)
    found: list[JobRecord] = []
    for at in range(0, len(order), _READ):
        if len(found) >= wanted:
            break
        jobs = [(queue, stored_id(job_id)) for _, job_id, queue in order[at : at + _READ]]
        rows = await asking.ask(get, {"jobs": jobs})
        records = (record_of(row) for row in rows if row is not None)
        found += [record for record in records if matches(record, query)]
    return found[query.offset : query.offset + query.limit]


def _is_plain(query: JobQuery) -> bool:
    """Whether the listing alone says which jobs are meant, unless they change meanwhile."""
    return query.housekeeping and query.name is query.tag is query.group is query.text is None


async def _ordered(pages: AsyncIterator[set[Place]], most: int | None) -> list[Place]:
    """All places, newest first; or some more than so many, which may have changed until they are read."""
    found: set[Place] = set()
    kept = None if most is None else most + _LISTED
    async for page in pages:
        found |= page
        if kept is not None and len(found) > 4 * kept:
            found = set(heapq.nlargest(kept, found))
    return sorted(found, reverse=True)


async def _listed(asking: Asking, query: JobQuery, listing: Script) -> AsyncIterator[set[Place]]:
    """Page by page the places of those that the listing alone does not rule out."""
    states = None if query.states is None else [state.value for state in query.states]
    asked: dict[str, Any] = {"queue": query.queue, "states": states, "most": _LISTED}
    since, before, after = query.created_from_ms, query.created_before_ms, query.after
    while True:
        flat, ended = await asking.ask(listing, asked)
        jobs = ((created, shown_id(job), queue.decode()) for queue, job, created in zip(*[iter(flat)] * 3, strict=True))
        yield {
            job
            for job in jobs
            if (since is None or job[0] >= since)
            and (before is None or job[0] < before)
            and (after is None or job[:2] < after)
        }
        if ended is None:
            return
        asked["from"] = [ended[0].decode(), *ended[1:]]
