"""Takes over jobs whose worker is gone and decides what becomes of them. The same pure decision as every other end.

Whoever saw the end calls it: the supervisor at once, the reaper for what nobody saw."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import msgspec

from workfleet.events import Event, JobRecovered
from workfleet.ids import new_token
from workfleet.model.jobs import Failure, JobRecord
from workfleet.model.outcome import GIVE_BACK, Ended, RunPolicy, Settlement, decide
from workfleet.ports.clock import Clock
from workfleet.ports.stores import JobStore, TakeOver


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
    gone. Raises StoreUnavailable; then call again with a new token. Two callers at once do no harm: every job is taken
    over by one of them."""
    policy = RunPolicy(max_crashes=max_crashes)
    recovered = 0
    while True:
        records = await jobs.take_over(request)
        if not records:
            return recovered
        reasons = [how.replace("{worker}", record.worker or "?") for record in records]
        # The product's own jobs are above suspicion.
        crowd = Counter(record.worker for record in records if not record.housekeeping)
        settlements = [
            _settlement(record, reason, policy, clock.now_ms(), given_back=given_back, company=crowd[record.worker] > 1)
            for record, reason in zip(records, reasons, strict=True)
        ]
        settled = await jobs.settle(settlements)
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
    )
