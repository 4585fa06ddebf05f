"""The worker's one conversation with the store: settle what has ended and claim for the slots that are free, together.

While a call is under way, more runs end and more slots get free, so the next call carries them all: batches form by
themselves, and a busy worker makes one round trip for many jobs. When everything has ended and it is much, half of it
goes first: from then on the store works on one half while this process runs the other. With a store across a network,
two calls may be under way at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from workfleet.errors import StoreUnavailable
from workfleet.events import ClaimLost, Event
from workfleet.ids import new_token
from workfleet.model.jobs import Claim
from workfleet.model.outcome import Settlement
from workfleet.ports.board import ClaimBoard
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, JobStore, Settled
from workfleet.supervision.insist import insist

from .handlers import HandlerTable
from .held import Answer, Held
from .runner import Runner
from .slots import Ask, Slots
from .telling import made, settled

_T = TypeVar("_T")
_GRACE_S = 1.5
_EDGE_MS = 20
_MUCH = 32
"""So much must have ended for a second call."""
_SLOW_S = 1.0
"""How often what has ended is looked at while calls are under way."""


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
        now_ms: Callable[[], Awaitable[int]],
        publish: Callable[[Event], None],
        calls: int = 1,
    ) -> None:
        """`now_ms` is the store's time, by which jobs are due. `calls` may be under way at a time: one for a store in
        this process, whose work a second call would only cut into smaller transactions."""
        self._calls = calls
        self._jobs, self._runner, self._handlers, self._board = jobs, runner, handlers, board
        self._worker, self._lease_ms, self._poll_ms = worker, lease_ms, poll_ms
        self._clock, self._now_ms, self._publish = clock, now_ms, publish
        # By claim, not by job: a job whose claim was lost may be claimed anew while its old run has not ended.
        self._held: dict[Claim, Held] = {}
        self._slots = Slots(handlers)
        self._fresh: list[Held] = []
        """What was claimed and has no task yet."""
        self._ended: list[Held] = []
        self._trades: set[asyncio.Task[None]] = set()
        """Calls under way."""
        self._answers: list[Answer] = []
        """What calls have come to, and nothing is done about yet."""
        self._reminder: asyncio.TimerHandle | None = None
        self._something = asyncio.Event()
        self._idle = asyncio.Event()
        self._claiming, self._paused = True, False
        self._exhausted = False
        self._wakes = 0
        self.totals: Counter[str] = Counter()

    @property
    def active(self) -> int:
        """Jobs that are claimed and not settled yet."""
        return len(self._held)

    def stands_still(self, waiting: Collection[asyncio.Task[Any] | None] = ()) -> bool:
        """Whether there is nothing to settle and nothing to claim, and every run is one of these tasks, which wait for
        something else. For tests that move the clock."""
        under_way = self._fresh or self._ended or self._trades or self._answers
        busy = under_way or (self._ask(()).wants and not self._exhausted)
        return not busy and all(held.task in waiting for held in self._held.values())

    def running(self) -> list[str]:
        """The runs under way, as "name (id)"."""
        return [f"{held.record.name} ({held.record.id})" for held in self._held.values()]

    def pause(self) -> None:
        """Claim no more until `resume`. What runs goes on and is settled."""
        self._paused = True
        self._something.set()

    def resume(self) -> None:
        """Claim again, at once."""
        self._paused = False
        self.wake()

    async def serve(self) -> None:
        try:
            while True:
                self._something.clear()
                self._take_note_of_trades()
                batch = self._batch()
                ask = self._ask(batch)
                if batch or (ask.wants and not self._exhausted and not self._trades):
                    # First of all: the store works while this process does everything else.
                    self._begin_trade(batch, ask)
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop and no time: the call is made
                elif self._answers:
                    self._take_in(self._answers.pop(0))
                elif self._fresh:
                    await self._begin_runs()
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop and no time: they begin, or are found to be lost
                elif ask.wants and not self._trades:
                    await self._wait_for_work([want.queue for want in ask.wants])
                else:
                    await self._something.wait()
        finally:
            if self._reminder is not None:
                self._reminder.cancel()
                self._reminder = None
            for trade in self._trades:
                trade.cancel()
            await asyncio.gather(*self._trades, return_exceptions=True)
            self._trades.clear()
            while self._answers:
                self._take_in(self._answers.pop(0))

    async def drain(self, deadline_s: float) -> int:
        """Stop claiming, let runs end until the deadline, then give the rest back. Returns how many were given back.

        `serve` must go on meanwhile: it settles what ends."""
        self._claiming = False
        if not await self._settled_within(deadline_s):
            for held in list(self._held.values()):
                self._stop(held)
            self._find_lost()
            # Cancelled code gets a moment for its `finally`; what cannot be ended stays on the board.
            await self._settled_within(_GRACE_S)
        return self.totals["given_back"]

    def lose(self, claim: Claim) -> None:
        """The claim is somebody else's by now: end its run. Its settlement will be refused, which tells so."""
        held = self._held.get(claim)
        if held is not None:
            self._stop(held)

    def time_out(self) -> bool:
        """For tests, whose clock is not the one that timeouts count by: the time of the run that calls this is over.
        False where it has no timeout."""
        return self._runner.time_out(asyncio.current_task())

    def cancel(self, claim: Claim) -> None:
        """Somebody has cancelled the job: end its run for good."""
        held = self._held.get(claim)
        if held is not None and held.settlement is None and not held.record.cancel_asked:
            held.record.cancel_asked = True
            self._stop(held)

    def claims(self) -> list[Claim]:
        """What runs and nobody has cancelled yet."""
        return [claim for claim, held in self._held.items() if not (held.settlement or held.record.cancel_asked)]

    def wake(self) -> None:
        """There may be work: claim at once."""
        self._exhausted = False
        self._wakes += 1
        self._something.set()

    def unnoted(self) -> list[Claim]:
        """The claims that have no place on the board, so that nobody but this process renews them."""
        return [claim for claim, held in self._held.items() if held.slot < 0]

    async def _settled_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                while self._held or self._trades or self._answers:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _batch(self) -> list[Held]:
        """What the next call settles, taken out of `_ended`."""
        if len(self._trades) == self._calls or (self._trades and len(self._ended) < _MUCH):
            return []
        # Where everything has ended, half of it goes first: what the store gives for it runs during the next call.
        whole = len(self._ended) < len(self._held) or len(self._ended) < 2 * _MUCH
        take = len(self._ended) if whole else (len(self._ended) + 1) // 2
        batch, self._ended = self._ended[:take], self._ended[take:]
        return batch

    def _ask(self, batch: Sequence[Held]) -> Ask:
        """The free slots, counting those that this batch frees in the step that claims for them."""
        freed = [held.record.queue for held in batch]
        return self._slots.ask(freed, claiming=self._claiming and not self._paused)

    def _begin_trade(self, batch: list[Held], ask: Ask) -> None:
        self._slots.begin(ask)
        loop = asyncio.get_running_loop()
        trade = loop.create_task(self._trade(batch, ask), name="exchange trade")
        self._trades.add(trade)
        if self._reminder is None:
            self._reminder = loop.call_later(_SLOW_S, self._remind, loop)

    def _take_note_of_trades(self) -> None:
        for trade in [trade for trade in self._trades if trade.done()]:
            self._trades.discard(trade)
            trade.result()
        self._idle.set()

    def _remind(self, loop: asyncio.AbstractEventLoop) -> None:
        """A store that is slow to settle makes no stuck job: what has ended has no deadline any more."""
        for held in self._held.values():
            if held.settlement is not None:
                self._board.ended(held.slot)
        self._reminder = loop.call_later(_SLOW_S, self._remind, loop) if self._trades else None

    async def _trade(self, batch: list[Held], ask: Ask) -> None:
        """One call. If it is given up, what was to be settled goes back to what has ended: nothing is lost."""
        request = ClaimRequest(self._worker, new_token(), self._lease_ms, ask.wants, ask.total) if ask.wants else None
        wakes, asked_at_s = self._wakes, self._clock.monotonic()
        try:
            answer = await self._answer(batch, request)
        except BaseException:
            self._ended[:0] = batch
            self._slots.give_up(ask)
            raise
        finally:
            # Not by a callback of the task, which would come when the answer has been taken note of already.
            self._something.set()
        self._slots.end(ask, [record.queue for record in answer.claimed])
        if request is not None:
            self._exhausted = wakes == self._wakes and len(answer.claimed) < ask.total
        self._answers.append(Answer(batch, answer, self._clock.now_ms(), asked_at_s))

    async def _answer(self, batch: list[Held], request: ClaimRequest | None) -> Settled:
        """What the store says. What it cannot take fails its own job, and holds up no other."""
        settlements = [held.settlement for held in batch if held.settlement is not None]
        what = "settling and claiming jobs"
        try:
            answer = await self._insist(lambda: self._call(settlements, request), what)
        except (ValueError, TypeError, OverflowError) as error:
            # What a run left behind may be anything, and this the first to write it down.
            if not batch:
                raise
            self.wake()  # this call has claimed nothing, so that nobody knows whether there is something
            if len(batch) > 1:
                each = [await self._answer([held], None) for held in batch]
                left_out = {at: one.left_out[0] for at, one in enumerate(each) if one.left_out}
                return Settled([one.applied[0] for one in each], [], left_out=left_out)
            settlement = self._runner.refused(batch[0].record, error)
            batch[0].settlement = settlement
            return await self._insist(lambda: self._call([settlement], None), what)
        for at, ended in answer.held_back.items():
            held = batch[at]
            held.settlement = self._runner.settlement(ended, held.record, held.plan.policy)
            answer.applied[at] = (await self._answer([held], None)).applied[0]
        return answer

    async def _call(self, settlements: list[Settlement], request: ClaimRequest | None) -> Settled:
        if settlements:
            return await self._jobs.settle(settlements, request)
        assert request is not None
        return Settled([], await self._jobs.claim(request))

    async def _insist(self, call: Callable[[], Awaitable[_T]], what: str) -> _T:
        """Until the store has answered. The same call again is safe: claims and settlements carry their tokens."""
        return await insist(call, what, timeout_ms=self._lease_ms, clock=self._clock, publish=self._publish)

    def _is_old(self, since_s: float) -> bool:
        """Whether a lease may be over before its first renewal would come, if it is not over already."""
        return (self._clock.monotonic() - since_s) * 1000 > self._lease_ms / 3

    async def _make_sure_of(self, some: Sequence[Held]) -> None:
        """Renew claims before their runs begin. What is not ours any more ends, and its settlement will be refused."""
        claims, asked_at_s = [held.claim for held in some], self._clock.monotonic()
        alive = await self._insist(lambda: self._jobs.renew(claims, self._lease_ms), "renewing fresh claims")
        for held, ours in zip(some, alive, strict=True):
            held.since_s, held.late = asked_at_s, False
            if not ours and held.settlement is None:
                self._end(held, self._runner.give_back(held.record))

    def _take_in(self, answer: Answer) -> None:
        """Forget what is settled, and note what was claimed."""
        self._forget(answer.batch, answer.settled, answer.at_ms)
        # The answer was slow, or somebody's code has blocked the loop since.
        late, since_s = self._is_old(answer.since_s), answer.since_s
        since_ms = int(since_s * 1000)
        for record in answer.settled.claimed:
            claim, plan = record.claim, self._runner.plan(record)
            timeout_ms = plan.policy.timeout_ms if plan.handler is not None else None
            slot = self._board.put(claim, timeout_ms=timeout_ms, since_ms=since_ms, label=record.name)
            held = self._held[claim] = Held(record, claim, plan, slot, since_s, late)
            self._fresh.append(held)
        self._idle.set()

    async def _begin_runs(self) -> None:
        if late := [held for held in self._fresh if held.late and held.settlement is None]:
            await self._make_sure_of(late)
        loop = asyncio.get_running_loop()
        fresh, self._fresh = self._fresh, []
        for held in fresh:
            if held.settlement is not None:
                continue  # it was stopped before
            if self._claiming:
                held.task = loop.create_task(self._run(held), name=held.record.name)
            else:
                self._end(held, self._runner.give_back(held.record))  # the stop began while the store was answering

    async def _run(self, held: Held) -> None:
        if held.slot < 0 and self._is_old(held.since_s):
            # Only this loop renews it, and a run that began before may have blocked the loop.
            await self._make_sure_of([held])
            if held.settlement is not None:
                return
        held.begun = True
        settlement = await self._runner.run(held.record, held.plan)
        if settlement is not None:
            self._end(held, settlement)

    def _stop(self, held: Held) -> None:
        """Ask a run to stop. One that has not begun runs nothing, and its job goes back as it is."""
        if held.settlement is not None:
            return
        if held.task is not None and held.begun:
            self._runner.stop(held.task)
        else:
            if held.task is not None:
                held.task.cancel()
            self._end(held, self._runner.give_back(held.record))

    def _find_lost(self) -> None:
        """Runs that somebody cancelled before they began, past us: nobody else would ever settle them."""
        for held in list(self._held.values()):
            if held.task is not None and held.task.cancelled() and held.settlement is None:
                self._end(held, self._runner.give_back(held.record))

    def _end(self, held: Held, settlement: Settlement) -> None:
        held.settlement = settlement
        self._ended.append(held)
        self._something.set()

    def _forget(self, batch: Sequence[Held], answer: Settled, now_ms: int) -> None:
        for at, (held, done) in enumerate(zip(batch, answer.applied, strict=True)):
            assert held.settlement is not None
            del self._held[held.claim]
            self._board.clear(held.slot)
            record, outcome = held.record, held.settlement.outcome
            if not done:
                self._publish(ClaimLost(id=record.id, name=record.name, queue=record.queue))
                continue
            if not record.housekeeping:
                self.totals["given_back" if outcome.code == "given_back" else outcome.state] += 1
            self._publish(settled(record, outcome, now_ms))
            if outcome.follow_up:
                for event in made(outcome, answer.left_out.get(at, ())):
                    self._publish(event)

    async def _wait_for_work(self, queues: Sequence[str]) -> None:
        """Until a run ends, one of these queues is touched, a delayed job of theirs is due, or the poll is over."""
        self._find_lost()
        try:
            due_ms = await self._jobs.next_due_ms(queues)
            now_ms = 0 if due_ms is None else await self._now_ms()
        except StoreUnavailable:
            self._exhausted = False  # the next claim tells of the outage and outlasts it
            return
        # One that is due and was not handed out is so at the edge of a millisecond: no tight loop.
        until_due = self._poll_ms if due_ms is None else max(due_ms - now_ms, _EDGE_MS)
        woken = asyncio.ensure_future(self._jobs.wait(queues, min(until_due, self._poll_ms)))
        local = asyncio.ensure_future(self._something.wait())
        try:
            await asyncio.wait({woken, local}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (woken, local):
                waiting.cancel()
            await asyncio.gather(woken, local, return_exceptions=True)
        if not self._ended:
            self._exhausted = False
