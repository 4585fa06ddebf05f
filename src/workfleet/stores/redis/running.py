"""Jobs that run, in Redis: claims, outcomes, leases, reports.

It remembers in which queue a claimed job is, because a claim does not say so; where that is not known, the scripts look
in every queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workfleet.model.jobs import UNDECODABLE, Claim, Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.stores import ClaimRequest, Settled, TakeOver, Want

from ..texts import clean_text
from .asking import Asking
from .jobids import stored_id
from .records import FRESH_ROW, Row, asked_of, fresh_record_of, is_plain, ours_of, record_of
from .schedulers import JobSchedulers
from .scripts import Script
from .session import Session

_HELD_LIMIT = 100_000
_UNKNOWN = ("", "")


class Running:
    """What workers do with the jobs that they hold."""

    def __init__(self, session: Session, asking: Asking) -> None:
        self._session, self._asking = session, asking
        self._cycle, self._renew = Script.load("cycle"), Script.load("renew")
        self._report, self._take_over = Script.load("report"), Script.load("takeover")
        self._cancels, self._round_trip = Script.load("cancels"), Script.load("round_trip")
        self._foreseen: tuple[int, frozenset[str], int] | None = None
        """After a claim that emptied its queues: its number among the calls, its queues, and when they may have
        something (0: nobody knows)."""
        self.schedulers = JobSchedulers(asking)
        self._held: dict[str, tuple[str, str]] = {}
        """Of jobs that were claimed here, by id: the queue, and the token of one that is like most (`parts/batch.lua`).
        A hint only."""

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None) -> Settled:
        """Apply outcomes and claim more, in one step; see `JobStore.settle`."""
        plain: dict[str, list[Any]] = {}
        places: dict[str, list[int]] = {}
        done: list[dict[str, Any]] = []
        rest: list[int] = []
        for place, each in enumerate(settlements):
            queue, token = self._held.pop(each.claim.job_id, _UNKNOWN)
            if token == each.claim.token and _completes(each):
                plain.setdefault(queue, [queue]).extend(_completed(each))
                places.setdefault(queue, []).append(place)
            else:
                done.append(_done(each, queue))
                rest.append(place)
        asked = {
            "plain": list(plain.values()),
            "done": done,
            "claim": None if then is None else _claim(then),
            "metrics": self._session.metrics_minutes,
        }
        call = self._session.calls + 1
        answers, rows, topics, now_ms, due_ms = await self._asking.ask(self._cycle, asked)
        self._session.announce(topics)
        self._foreseen = None
        if then is not None and (then.total is None or len(rows) < then.total):
            self._session.hear(now_ms)
            self._foreseen = call, frozenset(want.queue for want in then.wants), due_ms or 0
        applied = [False] * len(settlements)
        order = (place for of_queue in (*places.values(), rest) for place in of_queue)
        for place, answer in zip(order, answers, strict=True):
            applied[place] = answer == 1
        return Settled(applied, await self._taken(rows, then, now_ms))

    def foreseen_due_ms(self, queues: Sequence[str]) -> int | None:
        """What the last call, a claim that emptied its queues, said of `next_due_ms`: 0 for nothing. None: ask."""
        foreseen, self._foreseen = self._foreseen, None
        if foreseen is None or foreseen[0] != self._session.calls or foreseen[1] != frozenset(queues):
            return None
        now_ms = self._session.heard_ms()
        return foreseen[2] if now_ms is not None and (not foreseen[2] or foreseen[2] > now_ms) else None

    async def round_trip(self, job: JobRecord, request: ClaimRequest, outcome: Outcome) -> int:
        """Enqueue, claim and settle in one step; see `JobStore.round_trip`."""
        done = _done(Settlement(Claim(job.id, request.token), outcome), job.queue)
        asked = {"jobs": [asked_of(job)], "claim": _claim(request), "done": done}
        settled: int = await self._asking.change(self._round_trip, asked)
        return settled

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
        rows = await self._asking.ask(self._take_over, asked)
        return await self._taken(rows, now_ms=int(rows[0][4]) - request.lease_ms if rows else 0)

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        asked = {"claims": [self._at(claim) for claim in claims]}
        return [bool(each) for each in await self._asking.ask(self._cancels, asked)]

    def _at(self, claim: Claim) -> tuple[str, str, str]:
        return (self._held.get(claim.job_id, _UNKNOWN)[0], stored_id(claim.job_id), claim.token)

    async def _taken(
        self, rows: Sequence[Row], request: ClaimRequest | None = None, now_ms: int = 0
    ) -> list[JobRecord]:
        """Records of what was handed out. What cannot be read fails, and is given to nobody."""
        if len(self._held) > _HELD_LIMIT:
            self._held.clear()  # left over from claims that were lost
        refused = await self.schedulers.advance(rows, now_ms)
        records: list[JobRecord] = []
        unreadable: list[JobRecord] = []
        for row in rows:
            if len(row) == FRESH_ROW and request is not None:
                record = fresh_record_of(row, request, now_ms)
                self._held[record.id] = (record.queue, request.token if is_plain(record) else "")
            else:
                record = record_of(row)
                self._held[record.id] = (record.queue, "")
            if record.id in refused:
                record.outcome, record.failure = UNDECODABLE, Failure(UNDECODABLE, refused[record.id])
            (unreadable if record.outcome == UNDECODABLE else records).append(record)
        if unreadable:
            await self.settle([Settlement(record.claim, _unreadable(record)) for record in unreadable], None)
        return records


def _completes(settlement: Settlement) -> bool:
    """Whether a run ended as most do."""
    outcome = settlement.outcome
    return (
        outcome.state is JobState.COMPLETED
        and outcome.result is not None
        and outcome.failure is None
        and not outcome.crashes
        and not outcome.follow_up
    )


def _completed(settlement: Settlement) -> tuple[str, str, str, str, str]:
    """An item of `complete_many` in `parts/batch.lua`."""
    claim, outcome = settlement.claim, settlement.outcome
    assert outcome.result is not None
    # All as text, as Redis has it.
    made, result, ours = str(outcome.attempts_made), outcome.result.decode(), ours_of(settlement)
    return (stored_id(claim.job_id), claim.token, made, result, f",{ours[1:]}")


def _done(settlement: Settlement, hint: str) -> dict[str, Any]:
    """What `settle` in `parts/ending.lua` takes."""
    claim, outcome = settlement.claim, settlement.outcome
    done: dict[str, Any] = {
        "hint": hint,
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
