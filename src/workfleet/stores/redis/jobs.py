"""The job part of the Redis store: each operation is one script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from workfleet.errors import UsageError
from workfleet.model.jobs import (
    CANCELLED_UNRUN,
    CancelAnswer,
    Children,
    Claim,
    Enqueued,
    JobCounts,
    JobRecord,
    JobState,
)
from workfleet.model.outcome import Settlement
from workfleet.ports.jobs import ClaimRequest, JobQuery, Place, PruneRule, Settled, TakeOver

from ..wakes import CANCELS, queue_topic
from .asking import Asking
from .finding import find_jobs
from .jobids import shown_id, stored_id
from .records import asked_of, json_of, plain_of, record_of
from .running import Running
from .scripts import Script
from .session import Session

_COUNTED = ("waiting", "prioritized", "delayed", "active", "completed", "failed", "waiting_children", "retrying")
_DELETED_AT_ONCE, _OPERATED_AT_ONCE = 100, 100
"""How many jobs one call looks at, so that no other one waits for long."""


class RedisJobs:
    """A `JobStore`."""

    def __init__(self, session: Session) -> None:
        self._session, self._asking = session, Asking(session)
        self._running = Running(session, self._asking)
        self._enqueue, self._operate = Script.load("enqueue"), Script.load("operate")
        self._get, self._logs = Script.load("get"), Script.load("logs")
        self._children, self._place = Script.load("children"), Script.load("place")
        self._counts, self._due = Script.load("counts"), Script.load("due")
        self._expiry = Script.load("expiry")
        self._purge, self._prune = Script.load("purge"), Script.load("prune")
        self._listing = Script.load("listing")

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        plain = plain_of(jobs)
        asked = {"plain": plain} if plain else {"jobs": [asked_of(job) for job in jobs]}
        added = await self._asking.change(self._enqueue, {**asked, "call": call})
        if added is None:
            return [Enqueued(job.id, created=True) for job in jobs]
        return [Enqueued(shown_id(job_id), bool(created), bool(replaced)) for job_id, created, replaced in added]

    async def claim(self, request: ClaimRequest) -> list[JobRecord]:
        return (await self.settle((), request)).claimed

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None = None) -> Settled:
        if then is not None:
            self._session.wakes.looked(queue_topic(want.queue) for want in then.wants)
            if self._session.names is not None:
                self._session.names.works_on(then.worker, (want.queue for want in then.wants))
        return await self._running.settle(settlements, then)

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        return await self._running.renew(claims, lease_ms)

    async def report(
        self, claim: Claim, *, progress: bytes | None = None, lines: Sequence[str] = (), call: str | None = None
    ) -> bool:
        return await self._running.report(claim, progress=progress, lines=lines, call=call)

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        return await self._running.take_over(request)

    async def get(self, ids: Sequence[str], *, queue: str | None = None) -> list[JobRecord | None]:
        asked = [(queue or "", stored_id(job_id)) for job_id in ids]
        found = await self._asking.ask(self._get, {"jobs": asked})
        for job_id, rows in zip(ids, found, strict=True):
            if len(rows) > 1:
                queues = ", ".join(sorted(row[0].decode() for row in rows))
                raise UsageError(f"each of the queues {queues} has a job {job_id}: say which queue is meant")
        return [record_of(rows[0]) if rows else None for rows in found]

    async def find(self, query: JobQuery) -> list[JobRecord]:
        return await find_jobs(self._asking, query, listing=self._listing, get=self._get)

    async def logs(self, job_id: str, *, queue: str | None = None) -> list[str]:
        lines = await self._asking.ask(self._logs, {"id": stored_id(job_id), "queue": queue})
        return [line.decode(errors="backslashreplace") for line in lines]

    async def place(self, job_id: str, *, queue: str | None = None) -> Place | None:
        row = await self._asking.ask(self._place, {"id": stored_id(job_id), "queue": queue})
        if row is None:
            return None
        ahead, rival, starts_ms = row
        return Place(ahead, None if rival is None else shown_id(rival), starts_ms)

    async def children(self, job_id: str, *, queue: str | None = None) -> Children:
        results, failures = await self._asking.ask(self._children, {"id": stored_id(job_id), "queue": queue})
        return Children(
            {_text(key): result for key, result in zip(results[::2], results[1::2], strict=True)},
            {_text(key): _text(reason) for key, reason in zip(failures[::2], failures[1::2], strict=True)},
        )

    async def counts(self, *, housekeeping: bool = True) -> dict[str, JobCounts]:
        rows = await self._asking.ask(self._counts, {"hk": housekeeping})
        return {
            name.decode(): JobCounts(**dict(zip(_COUNTED, numbers, strict=True)), oldest_ready_ms=oldest)
            for name, *numbers, oldest in rows
        }

    async def expires_in_ms(self) -> int | None:
        return cast(int | None, await self._asking.ask(self._expiry, {}))

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        foreseen = self._running.foreseen_due_ms(queues)
        if foreseen is not None:
            return foreseen or None
        return cast(int | None, await self._asking.ask(self._due, {"queues": queues}))

    async def retry(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return await self._operated("retry", ids, queue)

    async def cancel(self, ids: Sequence[str], *, queue: str | None = None) -> list[CancelAnswer]:
        # Of a scheduler only this run is cancelled: it goes on with the next one.
        born = [(queue or "", stored_id(job_id)) for job_id in ids if job_id.startswith("repeat:")]
        if born:
            found = await self._asking.ask(self._get, {"jobs": born})
            rows = [row for rows in found for row in rows]
            await self._running.schedulers.advance(rows, await self._session.now_ms())
        failure = {"failure": json_of(CANCELLED_UNRUN), "reason": CANCELLED_UNRUN.said()}
        answers = await self._operate_on(ids, {"what": "cancel", "queue": queue, **failure})
        return [cast(CancelAnswer, answer.decode()) for answer in answers]

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        self._session.wakes.looked([CANCELS])
        return await self._running.cancels(claims)

    async def wait_for_cancels(self, timeout_ms: int) -> bool:
        return await self._session.wakes.wait([CANCELS], timeout_ms)

    async def promote(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return await self._operated("promote", ids, queue)

    async def delete(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return await self._operated("delete", ids, queue)

    async def purge(self, queue: str, states: Sequence[JobState], limit: int = 1_000) -> int:
        asked = {"queue": queue, "states": [state.value for state in states]}
        return await self._deleted(self._purge, asked, limit)

    async def prune(self, rules: Sequence[PruneRule], limit: int = 1_000) -> int:
        asked = [{"state": r.state.value, "age_ms": r.age_ms, "count": r.count, "hk": r.housekeeping} for r in rules]
        return await self._deleted(self._prune, {"rules": asked}, limit)

    async def _deleted(self, script: Script, asked: Mapping[str, Any], limit: int) -> int:
        """Delete by a script that looks at few jobs in a call, and says where it ended."""
        count, ended = 0, None
        deleted: int
        while True:
            now = {**asked, "limit": limit - count, "most": _DELETED_AT_ONCE, "from": ended}
            deleted, place, topics = await self._asking.ask(script, now)
            ended = place and [part.decode() if isinstance(part, bytes) else part for part in place]
            self._session.announce(topics)
            count += deleted
            if ended is None or (count >= limit and script is self._purge):
                return count

    async def wait(self, queues: Sequence[str], timeout_ms: int) -> bool:
        return await self._session.wait_for_queues(queues, timeout_ms)

    async def _operated(self, what: str, ids: Sequence[str], queue: str | None) -> list[bool]:
        return [answer == 1 for answer in await self._operate_on(ids, {"what": what, "queue": queue})]

    async def _operate_on(self, ids: Sequence[str], asked: Mapping[str, Any]) -> list[Any]:
        """The answers of an operation, which may look for each job in a long list: few in a call."""
        answers: list[Any] = []
        for at in range(0, len(ids), _OPERATED_AT_ONCE):
            some = _stored(ids[at : at + _OPERATED_AT_ONCE])
            answers += await self._asking.change(self._operate, {**asked, "ids": some})
        return answers


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _stored(ids: Sequence[str]) -> list[str]:
    return [stored_id(job_id) for job_id in ids]
