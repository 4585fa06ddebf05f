"""`Jobs`: what user code and the command line do with stored jobs."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Unpack

import msgspec
from msgspec.structs import replace

from workfleet.errors import UsageError
from workfleet.model.jobs import FINISHED, Children, JobRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .actions import (
    CANCEL,
    DELETE,
    PROMOTE,
    RETRY,
    Acted,
    Action,
    Verb,
    act,
    act_on_all,
    check,
    known,
    matching,
    no_job,
    pages,
)
from .filters import JobFilter, query_of
from .waits import Reason, reasons_to_wait

_MOST = 1_000_000
_FIRST_POLL_S, _LAST_POLL_S = 0.05, 1.0
_ACTIONS: dict[str, Action] = {action.verb: action for action in (RETRY, CANCEL, DELETE, PROMOTE)}


class Jobs:
    """The app's jobs. Filters are those of `JobFilter`: queue, states, name, tag, group, older_than, newer_than, text.

    Where a job is named by its id, `queue` says in which queue it is. That is needed for ids that BullMQ made, which
    counts in each queue from 1 on: where several have such a job, leaving it out raises `UsageError`.

    `retry`, `cancel`, `delete` and `promote` take ids: nothing is done when one of them is wrong (`NotFound`,
    `UsageError`), else each answer says what happened to its job. Their `…_all` take filters, and no filter means every
    job; they work in pages of a thousand, meet each job once, and may run while workers work. The product's own jobs
    are left out unless `queue` or `housekeeping` says so."""

    def __init__(self, store: Callable[[], Awaitable[Store]], clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def list(
        self, *, limit: int = 100, offset: int = 0, **filters: Unpack[JobFilter]
    ) -> builtins.list[JobRecord]:
        """Jobs that match, newest first. Raises `UsageError` for filters that make no sense; `iterate` has no limit."""
        if not 1 <= limit <= _MOST or not 0 <= offset <= _MOST:
            raise UsageError(
                f"limit={limit}, offset={offset}: at most {_MOST:,}, and a limit of 1 at least; use iterate"
            )
        store = await self._store()
        query = query_of(filters, await store.now_ms())
        return await store.jobs.find(replace(query, limit=limit, offset=offset))

    async def iterate(self, **filters: Unpack[JobFilter]) -> AsyncIterator[JobRecord]:
        """All jobs that match, newest first, fetched in pages. Each is given once, whatever happens meanwhile; those
        that are enqueued meanwhile are not among them."""
        store = await self._store()
        async for page in pages(store.jobs, query_of(filters, await store.now_ms())):
            for job in page:
                yield job

    async def get(self, job_id: str, *, queue: str | None = None) -> JobRecord:
        """One job. Raises `NotFound`."""
        (record,) = await known((await self._store()).jobs, [job_id], queue=queue)
        if record is None:
            raise no_job(job_id)
        return record

    async def logs(self, job_id: str, *, queue: str | None = None) -> builtins.list[str]:
        """What its code logged, and wrote with `job.log`, oldest first. Raises `NotFound`."""
        job = await self.get(job_id, queue=queue)
        return await (await self._store()).jobs.logs(job_id, queue=job.queue)

    async def children_values(self, job_id: str, *, queue: str | None = None) -> dict[str, Any]:
        """The results of a job's child jobs that have completed, by their keys in Redis (`prefix:queue:id`), as
        BullMQ's `getChildrenValues`. Only a FlowProducer of BullMQ makes such jobs. Raises `NotFound`."""
        children = await self._children(job_id, queue)
        return {key: msgspec.json.decode(result) for key, result in children.results.items()}

    async def children_failures(self, job_id: str, *, queue: str | None = None) -> dict[str, str]:
        """Why child jobs have failed without which the job goes on, by their keys. Raises `NotFound`."""
        return (await self._children(job_id, queue)).failures

    async def follow_logs(self, job_id: str, *, queue: str | None = None) -> AsyncIterator[str]:
        """Its log lines from the first on, and further ones as they are written, until it has finished or is deleted;
        a job that waits, or is retried, is waited for. Raises `NotFound`."""
        store, told, wait_s = await self._store(), 0, _FIRST_POLL_S
        job: JobRecord | None = await self.get(job_id, queue=queue)
        while job is not None:
            # The job was read first: what a finished one wrote is all in the lines that are read after.
            lines = (await store.jobs.logs(job_id, queue=job.queue))[told:]
            for line in lines:
                yield line
            told += len(lines)
            if job.state in FINISHED:
                return
            wait_s = _FIRST_POLL_S if lines else min(wait_s * 1.5, _LAST_POLL_S)
            await self._clock.sleep(wait_s)
            (job,) = await store.jobs.get([job_id], queue=job.queue)

    async def explain(self, job_id: str, *, queue: str | None = None) -> builtins.list[Reason]:
        """Why a job that has not finished does not run: a paused queue, a delay, a limit, no worker, jobs before it.
        Empty when it runs or has finished. Raises `NotFound`."""
        return await reasons_to_wait(await self._store(), await self.get(job_id, queue=queue))

    async def retry(self, *ids: str, queue: str | None = None) -> builtins.list[Acted]:
        """Make failed jobs ready again, with all their attempts."""
        return await act((await self._store()).jobs, RETRY, ids, queue=queue)

    async def cancel(self, *ids: str, queue: str | None = None) -> builtins.list[Acted]:
        """Fail jobs with the outcome `cancelled`. One that runs is `asked`: its worker ends it, or whoever takes it
        over does. One that had finished stays as it is, which is no error."""
        return await act((await self._store()).jobs, CANCEL, ids, queue=queue)

    async def delete(self, *ids: str, queue: str | None = None) -> builtins.list[Acted]:
        """Delete jobs with their logs, and with the children of a flow, in any state but active."""
        return await act((await self._store()).jobs, DELETE, ids, queue=queue)

    async def promote(self, *ids: str, queue: str | None = None) -> builtins.list[Acted]:
        """Make delayed jobs ready now."""
        return await act((await self._store()).jobs, PROMOTE, ids, queue=queue)

    async def retry_all(self, *, everything: bool = False, **filters: Unpack[JobFilter]) -> int:
        """Retry all failed jobs that match. Returns how many. Raises `UsageError` without any filter, unless it is told
        `everything=True`; so do the others below."""
        return await self._act_on_all(RETRY, filters, everything=everything)

    async def cancel_all(self, *, everything: bool = False, **filters: Unpack[JobFilter]) -> int:
        """Cancel all unfinished jobs that match. Returns how many were cancelled, or asked to end."""
        return await self._act_on_all(CANCEL, filters, everything=everything)

    async def delete_all(self, *, everything: bool = False, **filters: Unpack[JobFilter]) -> int:
        """Delete all jobs that match and do not run. Returns how many."""
        return await self._act_on_all(DELETE, filters, everything=everything)

    async def promote_all(self, *, everything: bool = False, **filters: Unpack[JobFilter]) -> int:
        """Make all delayed jobs that match ready now. Returns how many."""
        return await self._act_on_all(PROMOTE, filters, everything=everything)

    async def check(self, verb: Verb, *ids: str, queue: str | None = None) -> None:
        """Raise what `retry`, `cancel`, `delete` or `promote` would say to these ids, and do nothing."""
        await check((await self._store()).jobs, _action(verb), list(dict.fromkeys(ids)), queue=queue)

    async def changed_by(self, verb: Verb, **filters: Unpack[JobFilter]) -> AsyncIterator[JobRecord]:
        """The jobs that `retry_all`, `cancel_all`, `delete_all` or `promote_all` would change now."""
        store = await self._store()
        async for page in matching(store.jobs, _action(verb), await self._query(filters)):
            for job in page:
                yield job

    async def _children(self, job_id: str, queue: str | None) -> Children:
        job = await self.get(job_id, queue=queue)
        return await (await self._store()).jobs.children(job_id, queue=job.queue)

    async def _act_on_all(self, action: Action, filters: JobFilter, *, everything: bool) -> int:
        if not filters and not everything:
            how = "say which, such as queue='emails', or everything=True"
            raise UsageError(f"{action.verb}_all() without a filter is about every job: {how}")
        return await act_on_all((await self._store()).jobs, action, await self._query(filters))

    async def _query(self, filters: JobFilter) -> JobQuery:
        return query_of(filters, await (await self._store()).now_ms())


def _action(verb: str) -> Action:
    if verb not in _ACTIONS:
        raise UsageError(f"{verb!r} is none of {', '.join(_ACTIONS)}")
    return _ACTIONS[verb]
