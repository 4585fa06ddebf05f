"""Jobs that run, in Redis: claims, outcomes, leases, reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workfleet.model.jobs import UNDECODABLE, Claim, Failure, JobRecord, JobState
from workfleet.model.outcome import Ended, Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, Settled, TakeOver, Want

from ..texts import clean_text
from ..wakes import queue_topic
from ..wants import still_wanted
from .asking import Asking
from .jobids import stored_id
from .records import FRESH_ROW, Row, asked_of, fresh_record_of, is_kept, is_plain, ours_of, record_of
from .schedulers import JobSchedulers
from .scripts import Script
from .session import Session

_HELD_LIMIT = 100_000
_UNREADABLE_LIMIT = 1_000
"""So many jobs that cannot be read one claim fails."""
_CANNOT = "it cannot complete: {} of its children have {}"


class _Held(NamedTuple):
    """Of a job like most (`parts/batch.lua`) that was claimed here: its queue, its claim's token, who claimed it, when,
    and whether it is kept when it has completed. A hint only. Jobs that were claimed together share one."""

    queue: str
    token: str
    worker: str
    started_ms: int
    kept: bool


class Running:
    """What workers do with the jobs that they hold."""

    def __init__(self, session: Session, asking: Asking) -> None:
        self._session, self._asking = session, asking
        self._cycle, self._renew = Script.load("cycle"), Script.load("renew")
        self._report, self._take_over = Script.load("report"), Script.load("takeover")
        self._cancels = Script.load("cancels")
        self._foreseen: tuple[frozenset[str], int] | None = None
        """After a claim that emptied its queues: the queues, and when they may have something (0: nobody knows)."""
        self.schedulers = JobSchedulers(asking)
        self._held: dict[Claim, _Held] = {}

    async def settle(self, settlements: Sequence[Settlement], then: ClaimRequest | None) -> Settled:
        """Apply outcomes and claim more, in one step; see `JobStore.settle`."""
        answer, unreadable = await self._step(settlements, then)
        if unreadable:
            await self._replace(unreadable, then, answer.claimed)
        return answer

    async def _replace(self, unreadable: list[JobRecord], then: ClaimRequest | None, claimed: list[JobRecord]) -> None:
        """Fail what cannot be read, and claim others in its place, under the same token."""
        known = [*claimed]
        while unreadable:
            known += unreadable
            fails = [Settlement(record.claim, _unreadable(record)) for record in unreadable]
            if then is None or len(known) - len(claimed) >= _UNREADABLE_LIMIT:
                await self._step(fails, None)
                if then is not None:
                    self._session.wakes.announce(queue_topic(want.queue) for want in then.wants)
                return
            more, unreadable = await self._step(fails, still_wanted(then, claimed), known)
            claimed += more.claimed
            known += more.claimed

    async def _step(
        self, settlements: Sequence[Settlement], then: ClaimRequest | None, known: Sequence[JobRecord] = ()
    ) -> tuple[Settled, list[JobRecord]]:
        """One call of the script, and what it handed out and cannot be read. `known`: what `then` was given before."""
        plain: dict[_Held, list[str | int]] = {}
        places: dict[_Held, list[int]] = {}
        done: list[dict[str, Any]] = []
        rest: list[int] = []
        for place, each in enumerate(settlements):
            held = self._held.pop(each.claim, None)
            if held is not None and _completes(each, held):
                if held not in plain:
                    plain[held], places[held] = [held.queue, held.token, int(not held.kept)], []
                plain[held] += _completed(each)
                places[held].append(place)
            else:
                done.append(done_of(each))
                rest.append(place)
        asked = {
            "plain": list(plain.values()),
            "done": done,
            "claim": None if then is None else claim_of(then, known),
            "metrics": self._session.metrics_minutes,
        }
        answers, rows, topics, now_ms, due_ms, barred, others = await self._asking.ask(self._cycle, asked)
        self._session.announce(topics)
        self._foreseen = None
        if then is not None and (then.total is None or len(rows) < then.total):
            self._session.hear(now_ms)
            self._foreseen = frozenset(want.queue for want in then.wants), due_ms or 0
        applied = [False] * len(settlements)
        order = [place for of_queue in (*places.values(), rest) for place in of_queue]
        for place, answer in zip(order, answers, strict=True):
            applied[place] = answer == 1
        held_back = {order[at - 1]: _held_back(pending, failed) for at, pending, failed in barred}
        left_out = {order[at - 1]: tuple(each - 1 for each in out) for at, out in others}
        records, unreadable = await self._taken(rows, then, now_ms)
        return Settled(applied, records, held_back, left_out), unreadable

    def foreseen_due_ms(self, queues: Sequence[str]) -> int | None:
        """What the last claim, if it emptied its queues just now, said of `next_due_ms`: 0 for nothing. None: ask.

        What changes from now on, here or elsewhere, wakes, so that nobody sleeps until then."""
        foreseen, self._foreseen = self._foreseen, None
        if foreseen is None or foreseen[0] != frozenset(queues):
            return None
        if self._session.wakes.has_news(map(queue_topic, queues)):
            return None
        now_ms = self._session.heard_ms()
        return foreseen[1] if now_ms is not None and (not foreseen[1] or foreseen[1] > now_ms) else None

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        asked = {"claims": [_at(claim) for claim in claims], "lease_ms": lease_ms}
        return [bool(each) for each in await self._asking.ask(self._renew, asked)]

    async def report(self, claim: Claim, *, progress: bytes | None, lines: Sequence[str], call: str | None) -> bool:
        said = [clean_text(line) for line in lines]
        asked = {
            "claim": _at(claim),
            "progress": None if progress is None else progress.decode(),
            "lines": said,
            "call": call,
        }
        return bool(await self._asking.ask(self._report, asked))

    async def take_over(self, request: TakeOver) -> list[JobRecord]:
        claim = {"worker": request.worker, "token": request.token, "lease_ms": request.lease_ms}
        asked = {"claim": claim, "limit": request.limit, "workers": request.workers}
        rows = await self._asking.ask(self._take_over, asked)
        records, unreadable = await self._taken(rows, now_ms=int(rows[0][4]) - request.lease_ms if rows else 0)
        await self._replace(unreadable, None, records)
        return records

    async def cancels(self, claims: Sequence[Claim]) -> list[bool]:
        asked = {"claims": [_at(claim) for claim in claims]}
        return [bool(each) for each in await self._asking.ask(self._cancels, asked)]

    async def _taken(
        self, rows: Sequence[Row], request: ClaimRequest | None = None, now_ms: int = 0
    ) -> tuple[list[JobRecord], list[JobRecord]]:
        """Records of what was handed out, and those of what cannot be read: these are to fail, and are nobody's."""
        if len(self._held) > _HELD_LIMIT:
            self._held.clear()  # left over from claims that were lost
        refused = await self.schedulers.advance(rows, now_ms)
        records: list[JobRecord] = []
        unreadable: list[JobRecord] = []
        shared: dict[_Held, _Held] = {}
        for row in rows:
            if len(row) == FRESH_ROW and request is not None:
                record = fresh_record_of(row, request, now_ms)
                if is_plain(record):
                    held = _Held(record.queue, request.token, request.worker, now_ms, is_kept(record))
                    self._held[record.claim] = shared.setdefault(held, held)
            else:
                record = record_of(row)
            if (at := (record.queue, record.id)) in refused:
                record.outcome, record.failure = UNDECODABLE, Failure(UNDECODABLE, refused[at])
            (unreadable if record.outcome == UNDECODABLE else records).append(record)
        return records, unreadable


def _at(claim: Claim) -> tuple[str, str, str]:
    return (claim.queue, stored_id(claim.job_id), claim.token)


def _completes(settlement: Settlement, held: _Held) -> bool:
    """Whether a run ended as most do, so that there is no more to say of it than its result and its end."""
    outcome, attempt = settlement.outcome, settlement.outcome.attempt
    return (
        outcome.code == "completed"
        and outcome.result is not None
        and outcome.attempts_made == 1
        and outcome.failure is None
        and not (outcome.crashes or outcome.deferrals or outcome.suspicions or outcome.follow_up)
        and attempt is not None
        and attempt.outcome == "completed"
        and attempt.number == 1
        and attempt.started_ms == held.started_ms
        and attempt.worker == held.worker
        and attempt.failure is None
    )


def _completed(settlement: Settlement) -> tuple[str, str, str]:
    """An item of `complete_many` in `parts/batch.lua`."""
    outcome = settlement.outcome
    assert outcome.result is not None
    assert outcome.attempt is not None
    # All as text, as Redis has it.
    return (stored_id(settlement.claim.job_id), outcome.result.decode(), str(outcome.attempt.ended_ms))


def done_of(settlement: Settlement) -> dict[str, Any]:
    """What `settle` in `parts/ending.lua` takes."""
    claim, outcome = settlement.claim, settlement.outcome
    done: dict[str, Any] = {
        "queue": claim.queue,
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


def _held_back(pending: int, failed: int) -> Ended:
    """What comes of a run whose job has children that have not finished, or have failed it. As in BullMQ, the first may
    be tried again."""
    if pending:
        return Ended(kind="raised", failure=Failure("children", _CANNOT.format(pending, "not finished")))
    return Ended(kind="failed", failure=Failure("children", _CANNOT.format(failed, "failed")))


def claim_of(request: ClaimRequest, known: Sequence[JobRecord] = ()) -> dict[str, Any]:
    asked = {
        "worker": request.worker,
        "token": request.token,
        "lease_ms": request.lease_ms,
        "total": request.total,
        "wants": [(want.queue, _share(want), want.limit) for want in request.wants],
    }
    if known:
        asked["known"] = [(record.queue, stored_id(record.id)) for record in known]
    return asked


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
