"""Takes over jobs whose worker is gone and decides what becomes of them. The same pure decision as every other end.

Whoever saw the end calls it: the supervisor at once, the reaper for what nobody saw."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec

from workfleet.events import Event, JobRecovered
from workfleet.ids import new_token
from workfleet.model.jobs import Failure, JobRecord
from workfleet.model.outcome import GIVE_BACK, Ended, RunPolicy, Settlement, decide
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import JobStore, TakeOver
from workfleet.supervision.insist import insist

_T = TypeVar("_T")
_WHAT = "taking over jobs of dead workers"


async def recover(
    jobs: JobStore,
    request: TakeOver,
    how: str,
    *,
    max_crashes: int,
    clock: Clock,
    publish: Callable[[Event], None],
    given_back: bool = False,
) -> int:
    """Take over what `request` names, all of it, and settle it. Returns how many jobs changed hands.

    `how` says how the worker ended; `{worker}` in it stands for the worker's id. A crash is counted and, at the
    `max_crashes`th, fails the job. With `given_back` it is none: the worker was stopped on purpose, and its process is
    gone. An outage is outlasted, each call repeated as it was, because what has been taken over must not wait for its
    new lease. Only the question for expired leases raises StoreUnavailable: after an outage keepers come first. Ask it
    again with the same token, which finds what a lost reply gave. Two callers at once do no harm: every job is taken
    over by one of them."""

    async def ask(call: Callable[[], Awaitable[_T]]) -> _T:
        return await insist(call, _WHAT, timeout_ms=request.lease_ms, clock=clock, publish=publish)

    policy = RunPolicy(max_crashes=max_crashes)
    recovered = 0
    while True:
        take_over = partial(jobs.take_over, request)
        records = await (take_over() if request.workers is None else ask(take_over))
        if not records:
            return recovered
        reasons = [how.replace("{worker}", record.worker or "?") for record in records]
        # The product's own jobs are above suspicion.
        crowd = Counter(record.worker for record in records if not record.housekeeping)
        settlements = [
            _settlement(record, reason, policy, clock.now_ms(), given_back=given_back, company=crowd[record.worker] > 1)
            for record, reason in zip(records, reasons, strict=True)
        ]
        settled = await ask(partial(jobs.settle, settlements))
        for record, reason, settlement, applied in zip(records, reasons, settlements, settled.applied, strict=True):
            if applied:
                recovered += 1
                publish(_recovered(record, reason, settlement))
        if len(records) < request.limit:
            return recovered
        request = msgspec.structs.replace(request, token=new_token())


def _settlement(
    record: JobRecord, how: str, policy: RunPolicy, now_ms: int, *, given_back: bool, company: bool
) -> Settlement:
    crashed = Ended(kind="crashed", failure=Failure("crashed", how), in_company=company)
    ended = GIVE_BACK if given_back else crashed
    return Settlement(record.claim, decide(ended, record, policy, now_ms=now_ms, draw=random.random()))


def _recovered(record: JobRecord, how: str, settlement: Settlement) -> JobRecovered:
    return JobRecovered(
        id=record.id,
        name=record.name,
        queue=record.queue,
        how=how,
        state=settlement.outcome.state.value,
        worker=record.worker or "",
        outcome=settlement.outcome.code,
        attempt=record.attempts_made + 1,
        started_ms=record.started_ms or 0,
        schedule=record.schedule,
        slot_ms=record.slot_ms,
        housekeeping=record.housekeeping,
    )
