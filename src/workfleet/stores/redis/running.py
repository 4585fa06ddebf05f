"""Jobs that run, in Redis: claims, outcomes, leases, reports.

It remembers in which queue a claimed job is, because a claim does not say so; where that is not known, the scripts look
in every queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workfleet.model.jobs import UNDECODABLE, Claim, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.stores import ClaimRequest, Settled, TakeOver, Want

from ..texts import clean_text
from .asking import Asking
from .jobids import stored_id
from .records import Row, asked_of, ours_of, record_of
from .scripts import Script
from .session import Session

_HELD_LIMIT = 100_000


class Running:
    """What workers do with the jobs that they hold."""

    def __init__(self, session: Session, asking: Asking) -> None:
        self._session, self._asking = session, asking
        self._cycle, self._renew = Script.load("cycle"), Script.load("renew")
        self._report, self._take_over = Script.load("report"), Script.load("takeover")
        self._cancels = Script.load("cancels")
        self._held: dict[str, str] = {}
        """The queues of jobs that were claimed here, by id. A hint only."""

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None) -> Settled:
        """Apply outcomes and claim more, in one step; see `JobStore.settle`."""
        asked = {"done": [self._done(each) for each in settlements], "claim": None if then is None else _claim(then)}
        applied, rows, topics, _ = await self._asking.ask(self._cycle, asked)
        self._session.announce(topics)
        return Settled([bool(each) for each in applied], await self._taken(rows))

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        asked = {"claims": [self._at(claim) for claim in claims], "lease_ms": lease_ms}
        return [bool(each) for each in await self._asking.ask(self._renew, asked)]

    async def report(self, claim: Claim, *, progress: bytes | None, lines: Sequence[str], call: str | None) -> bool:
        said = [clean_text(line) for line in lines]
        asked = {
            "claim": self._at(claim),
            "progress": None if progress is None else progress.decode(),
            "lines": said,
            "call": call,
        }
        return bool(await self._asking.ask(self._report, asked))

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        claim = {"worker": request.worker, "token": request.token, "lease_ms": request.lease_ms}
        asked = {"claim": claim, "limit": request.limit, "workers": request.workers}
        return await self._taken(await self._asking.ask(self._take_over, asked))

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        asked = {"claims": [self._at(claim) for claim in claims]}
        return [bool(each) for each in await self._asking.ask(self._cancels, asked)]

    def _at(self, claim: Claim) -> tuple[str, str, str]:
        return (self._held.get(claim.job_id, ""), stored_id(claim.job_id), claim.token)

    async def _taken(self, rows: Sequence[Row]) -> list[JobRecord]:
        """Records of what was handed out. What cannot be read fails, and is given to nobody."""
        if len(self._held) > _HELD_LIMIT:
            self._held.clear()  # left over from claims that were lost
        records = [record_of(row) for row in rows]
        for record in records:
            self._held[record.id] = record.queue
        unreadable = [record for record in records if record.outcome == UNDECODABLE]
        if not unreadable:
            return records
        await self.settle([Settlement(record.claim, _unreadable(record)) for record in unreadable], None)
        return [record for record in records if record.outcome != UNDECODABLE]

    def _done(self, settlement: Settlement) -> dict[str, Any]:
        claim, outcome = settlement.claim, settlement.outcome
        done: dict[str, Any] = {
            "hint": self._held.pop(claim.job_id, ""),
            "id": stored_id(claim.job_id),
            "token": claim.token,
            "state": outcome.state.value,
            "made": outcome.attempts_made,
            "ours": ours_of(settlement),
        }
        if outcome.state is JobState.DELAYED:
            done["delay"] = outcome.delay_ms
        if outcome.crashes:
            done["crashes"] = outcome.crashes
        if outcome.result is not None:
            done["result"] = outcome.result.decode()
        if outcome.failure is not None:
            done["reason"] = clean_text(outcome.failure.message)
            done["trace"] = clean_text(outcome.failure.traceback or outcome.failure.said())
        if outcome.follow_up:
            done["follow_up"] = [asked_of(job) for job in outcome.follow_up]
        return done


def _claim(request: ClaimRequest) -> dict[str, Any]:
    return {
        "worker": request.worker,
        "token": request.token,
        "lease_ms": request.lease_ms,
        "total": request.total,
        "wants": [(want.queue, _share(want), want.limit) for want in request.wants],
    }


def _share(want: Want) -> int:
    return want.limit if want.share is None else min(want.share, want.limit)


def _unreadable(record: JobRecord) -> Outcome:
    return Outcome(
        state=JobState.FAILED,
        code=UNDECODABLE,
        failure=record.failure,
        attempts_made=record.attempts_made,
        crashes=record.crashes,
    )
