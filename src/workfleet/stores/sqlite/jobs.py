"""The job part of the SQLite store: each operation as one step in a lane."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from workfleet.model.jobs import CancelAnswer, Children, Claim, Enqueued, JobCounts, JobRecord, JobState
from workfleet.model.outcome import Settlement
from workfleet.ports.jobs import ClaimRequest, JobQuery, Place, PruneRule, Settled, TakeOver

from ..wakes import CANCELS, queue_topic
from .adding import add_jobs
from .claiming import claim_jobs, renew_claims, take_over_jobs
from .deleting import delete_jobs, purge_jobs
from .finding import find_jobs
from .keeping import asked_cancels, cancel_jobs, promote_jobs, retry_jobs
from .lane import Step
from .lanes import Lanes
from .placing import place_of
from .pruning import Pruning
from .reading import count_jobs, first_expiry, get_jobs, job_logs, next_due, within
from .settling import report_run, settle_jobs


class _Foreseen(Struct, frozen=True):
    """What a claim that emptied its queues saw of `next_due_ms`: while nothing else was written here, asking again
    would say the same. What others write wakes."""

    write: int
    queues: frozenset[str]
    due_ms: int | None

    def holds(self, queues: Sequence[str], lanes: Lanes) -> bool:
        same = self.write == lanes.writes and self.queues == frozenset(queues)
        return same and (self.due_ms is None or self.due_ms > lanes.now_ms())


class SqliteJobs:
    """A `JobStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes
        self._foreseen: _Foreseen | None = None
        self._pruning = Pruning(app, lanes)

    async def enqueue(self, jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
        return await self._lanes.write(lambda step: add_jobs(step, self._app, jobs, call=call))

    async def claim(self, request: ClaimRequest) -> list[JobRecord]:
        return (await self.settle((), request)).claimed

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None = None) -> Settled:
        queues = () if then is None else tuple(want.queue for want in then.wants)

        def operation(step: Step) -> tuple[Settled, _Foreseen | None]:
            applied, left_out = settle_jobs(step, self._app, settlements)
            claimed = [] if then is None else claim_jobs(step, self._app, then)
            ahead = None
            if then is not None and (then.total is None or len(claimed) < then.total):
                ahead = _Foreseen(number, frozenset(queues), next_due(step, self._app, queues))
            return Settled(applied, claimed, left_out=left_out), ahead

        self._lanes.look(map(queue_topic, queues))
        number = self._lanes.writes + 1
        settled, self._foreseen = await self._lanes.write(operation)
        return settled

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        return await self._lanes.write(lambda step: renew_claims(step, self._app, claims, lease_ms))

    async def report(
        self, claim: Claim, *, progress: bytes | None = None, lines: Sequence[str] = (), call: str | None = None
    ) -> bool:
        return await self._lanes.write(
            lambda step: report_run(step, self._app, claim, progress=progress, lines=lines, call=call)
        )

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        return await self._lanes.write(lambda step: take_over_jobs(step, self._app, request))

    async def get(self, ids: Sequence[str], *, queue: str | None = None) -> list[JobRecord | None]:
        return await self._lanes.read(lambda step: get_jobs(step, self._app, within(step, self._app, ids, queue)))

    async def find(self, query: JobQuery) -> list[JobRecord]:
        return await self._lanes.read(lambda step: find_jobs(step, self._app, query))

    async def logs(self, job_id: str, *, queue: str | None = None) -> list[str]:
        return await self._lanes.read(lambda step: job_logs(step, self._app, *within(step, self._app, [job_id], queue)))

    async def place(self, job_id: str, *, queue: str | None = None) -> Place | None:
        return await self._lanes.read(lambda step: place_of(step, self._app, *within(step, self._app, [job_id], queue)))

    async def children(self, job_id: str, *, queue: str | None = None) -> Children:
        return Children()  # here are no flows

    async def counts(self, *, housekeeping: bool = True) -> dict[str, JobCounts]:
        return await self._lanes.read(lambda step: count_jobs(step, self._app, housekeeping=housekeeping))

    async def expires_in_ms(self) -> int | None:
        return await self._lanes.read(lambda step: first_expiry(step, self._app))

    async def next_due_ms(self, queues: Sequence[str]) -> int | None:
        foreseen, self._foreseen = self._foreseen, None
        if foreseen is not None and foreseen.holds(queues, self._lanes):
            return foreseen.due_ms
        return await self._lanes.read(lambda step: next_due(step, self._app, queues))

    async def retry(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return await self._lanes.write(lambda step: retry_jobs(step, self._app, within(step, self._app, ids, queue)))

    async def cancel(self, ids: Sequence[str], *, queue: str | None = None) -> list[CancelAnswer]:
        return await self._lanes.write(lambda step: cancel_jobs(step, self._app, within(step, self._app, ids, queue)))

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        self._lanes.look([CANCELS])
        return await self._lanes.read(lambda step: asked_cancels(step, self._app, claims))

    async def wait_for_cancels(self, timeout_ms: int) -> bool:
        return await self._lanes.wait([CANCELS], timeout_ms)

    async def promote(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return await self._lanes.write(lambda step: promote_jobs(step, self._app, within(step, self._app, ids, queue)))

    async def delete(self, ids: Sequence[str], *, queue: str | None = None) -> list[bool]:
        return await self._lanes.write(lambda step: delete_jobs(step, self._app, within(step, self._app, ids, queue)))

    async def purge(self, queue: str, states: Sequence[JobState], limit: int = 1_000) -> int:
        return await self._lanes.write(lambda step: purge_jobs(step, self._app, queue, states, limit))

    async def prune(self, rules: Sequence[PruneRule], limit: int = 1_000) -> int:
        return await self._pruning.prune(rules, limit)

    async def wait(self, queues: Sequence[str], timeout_ms: int) -> bool:
        return await self._lanes.wait(map(queue_topic, queues), timeout_ms)
