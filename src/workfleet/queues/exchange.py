"""The worker's one conversation with the store: settle what has ended and claim for the slots that are free, together.

While a call is under way, more runs end and more slots get free, so the next call carries them all: batches form by
themselves, and a busy worker makes one round trip for many jobs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from workfleet.errors import StoreUnavailable
from workfleet.events import ClaimLost, Event, JobSettled, StoreTrouble
from workfleet.ids import new_token
from workfleet.model.jobs import Claim, JobRecord
from workfleet.model.outcome import Settlement
from workfleet.ports.board import ClaimBoard
from workfleet.ports.clock import Clock
from workfleet.ports.stores import ClaimRequest, JobStore, Settled, Want

from .handlers import HandlerTable
from .runner import Runner

_T = TypeVar("_T")
_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 5.0


@dataclass
class _Held:
    """A claimed job in this worker, from claim to settle."""

    record: JobRecord
    slot: int
    task: asyncio.Task[Settlement | None] | None = None


class Exchange:
    """A Service. It claims only for free slots, runs what it gets, and settles until the store has said so."""

    name = "exchange"

    def __init__(
        self,
        jobs: JobStore,
        runner: Runner,
        handlers: HandlerTable,
        board: ClaimBoard,
        *,
        worker: str,
        lease_ms: int,
        poll_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._jobs, self._runner, self._handlers, self._board = jobs, runner, handlers, board
        self._worker, self._lease_ms, self._poll_ms = worker, lease_ms, poll_ms
        self._clock, self._publish = clock, publish
        self._held: dict[str, _Held] = {}
        self._running: Counter[str] = Counter()
        self._ended: list[Settlement] = []
        self._something = asyncio.Event()
        self._idle = asyncio.Event()
        self._claiming = True
        self._exhausted = False
        self.totals: Counter[str] = Counter()

    @property
    def active(self) -> int:
        """Jobs that are claimed and not settled yet."""
        return len(self._held)

    @property
    def idle(self) -> bool:
        """Whether nothing is held and the last claim found nothing."""
        return not self._held and self._exhausted

    async def serve(self) -> None:
        while True:
            self._something.clear()
            settlements, self._ended = self._ended, []
            wants = self._wants()
            if settlements or (wants and not self._exhausted):
                await self._trade(settlements, wants)
            elif not self._claiming or not wants:
                await self._something.wait()
            else:
                await self._wait_for_work()

    async def drain(self, deadline_s: float) -> int:
        """Stop claiming, let runs end until the deadline, then give the rest back. Returns how many were given back.

        `serve` must go on meanwhile: it settles what ends.
        """
        self._claiming = False
        if not await self._settled_within(deadline_s):
            for held in list(self._held.values()):
                if held.task is not None:
                    held.task.cancel()
            # Cancelled code gets a moment for its `finally`; what cannot be ended stays on the board.
            await self._settled_within(2.0)
        return self.totals["given_back"]

    def lose(self, claim: Claim) -> None:
        """The claim is somebody else's by now: end its run. Its settlement will be refused, which tells so."""
        held = self._held.get(claim.job_id)
        if held is not None and held.record.token == claim.token and held.task is not None:
            held.task.cancel()

    def wake(self) -> None:
        """There may be work: claim at once."""
        self._exhausted = False
        self._something.set()

    async def _settled_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                while self._held:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _wants(self) -> tuple[Want, ...]:
        if not self._claiming:
            return ()
        free = ((queue, limit - self._running[queue]) for queue, limit in self._handlers.concurrency.items())
        return tuple(Want(queue, slots) for queue, slots in free if slots > 0)

    async def _trade(self, settlements: list[Settlement], wants: tuple[Want, ...]) -> None:
        request = ClaimRequest(self._worker, new_token(), self._lease_ms, wants) if wants else None
        started = self._clock.monotonic()
        answer = await self._insist(lambda: self._call(settlements, request), "settling and claiming jobs")
        late = (self._clock.monotonic() - started) * 1000 > self._lease_ms / 3
        for settlement, applied in zip(settlements, answer.applied, strict=True):
            self._forget(settlement, applied=applied)
        if request is not None:
            self._exhausted = len(answer.claimed) < sum(want.limit for want in wants)
        await self._start(answer.claimed, renew_first=late)
        if not self._held:
            self._idle.set()

    async def _call(self, settlements: list[Settlement], request: ClaimRequest | None) -> Settled:
        if settlements:
            return await self._jobs.settle(settlements, request)
        assert request is not None
        return Settled([], await self._jobs.claim(request))

    async def _insist(self, call: Callable[[], Awaitable[_T]], what: str) -> _T:
        """Until the store has answered. The same call again is safe: claims and settlements carry their tokens."""
        wait_s, told = _FIRST_RETRY_S, False
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                if not told:
                    self._publish(StoreTrouble(what=what, error=str(error)))
                    told = True
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 2, _LAST_RETRY_S)

    async def _start(self, records: list[JobRecord], *, renew_first: bool) -> None:
        if renew_first and records:
            # The answer was slow: the lease may be over before the first renewal would come.
            claims = [record.claim for record in records]
            alive = await self._insist(lambda: self._jobs.renew(claims, self._lease_ms), "renewing fresh claims")
            records = [record for record, ok in zip(records, alive, strict=True) if ok]
        for record in records:
            slot = self._board.put(record.claim, deadline_ms=self._runner.deadline_ms(record))
            held = self._held[record.id] = _Held(record, slot)
            self._running[record.queue] += 1
            held.task = asyncio.create_task(self._runner.run(record), name=f"{record.name} {record.id}")
            held.task.add_done_callback(partial(self._run_ended, record))

    def _run_ended(self, record: JobRecord, task: asyncio.Task[Settlement | None]) -> None:
        # A task that was cancelled before its first step has run nothing: its job goes back too.
        settlement = self._runner.give_back(record) if task.cancelled() else task.result()
        if settlement is not None:
            self._ended.append(settlement)
            self._something.set()

    def _forget(self, settlement: Settlement, *, applied: bool) -> None:
        held = self._held.pop(settlement.claim.job_id)
        self._board.clear(held.slot)
        record, outcome = held.record, settlement.outcome
        self._running[record.queue] -= 1
        if not applied:
            self._publish(ClaimLost(id=record.id, name=record.name, queue=record.queue))
            return
        if not record.housekeeping:
            self.totals["given_back" if outcome.code == "given_back" else outcome.state.value] += 1
        self._publish(
            JobSettled(
                id=record.id,
                name=record.name,
                queue=record.queue,
                state=outcome.state.value,
                outcome=outcome.code,
                attempt=record.attempts_made + 1,
                duration_ms=max(self._clock.now_ms() - (record.started_ms or 0), 0),
                error=outcome.failure.message if outcome.failure else None,
                delay_ms=outcome.delay_ms,
                schedule=record.schedule,
                slot_ms=record.slot_ms,
                housekeeping=record.housekeeping,
            )
        )

    async def _wait_for_work(self) -> None:
        """Until a run ends, a queue is touched, a delayed job is due, or the poll is over."""
        try:
            due_ms = await self._jobs.next_due_ms(self._handlers.queues)
            until_due = self._poll_ms if due_ms is None else max(due_ms - self._clock.now_ms(), 0)
            woken = asyncio.ensure_future(self._jobs.wait(self._handlers.queues, min(until_due, self._poll_ms)))
        except StoreUnavailable:
            await self._clock.sleep(_FIRST_RETRY_S)
            return
        local = asyncio.ensure_future(self._something.wait())
        try:
            await asyncio.wait({woken, local}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (woken, local):
                waiting.cancel()
            await asyncio.gather(woken, local, return_exceptions=True)
        if not self._ended:
            self._exhausted = False
