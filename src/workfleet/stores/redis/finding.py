"""Finding jobs in Redis: BullMQ's layout has no index over all states, so ids are listed, and read page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workfleet.model.jobs import JobRecord
from workfleet.ports.stores import JobQuery

from ..memory.entries import matches
from .asking import Asking
from .jobids import shown_id, stored_id
from .records import record_of
from .scripts import Script

_PAGE = 500


async def find_jobs(asking: Asking, query: JobQuery, *, listing: Script, get: Script) -> list[JobRecord]:
    """The meaning is `JobStore.find`'s. A job that changes meanwhile is shown as it is when its page is read."""
    states = None if query.states is None else [state.value for state in query.states]
    flat = await asking.ask(listing, {"queue": query.queue, "states": states})
    order = sorted(_wanted(flat, query), reverse=True)
    found: list[JobRecord] = []
    for at in range(0, len(order), _PAGE):
        if len(found) >= query.offset + query.limit:
            break
        jobs = [(queue, stored_id(job_id)) for _, job_id, queue in order[at : at + _PAGE]]
        rows = await asking.ask(get, {"jobs": jobs})
        records = (record_of(row) for row in rows if row is not None)
        found += [record for record in records if matches(record, query)]
    return found[query.offset : query.offset + query.limit]


def _wanted(flat: Sequence[Any], query: JobQuery) -> list[tuple[int, str, str]]:
    """Creation, id and queue of those that the listing alone does not rule out."""
    jobs = [
        (created, shown_id(job_id), queue.decode()) for queue, job_id, created in zip(*[iter(flat)] * 3, strict=True)
    ]
    since, before, after = query.created_from_ms, query.created_before_ms, query.after
    return [
        job
        for job in jobs
        if (since is None or job[0] >= since)
        and (before is None or job[0] < before)
        and (after is None or job[:2] < after)
    ]
