"""The loop that deletes finished jobs, and rows of the run ledger, when their retention is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from workfleet.errors import StoreUnavailable
from workfleet.ids import new_token
from workfleet.model.jobs import JobState
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import PruneRule
from workfleet.ports.stores import Store

_DAY_MS = 86_400_000
_EVERY_S = 60.0
_LOOK_S = 5.0
_MANY = 5_000
"""When so many jobs have ended here since the last round, the next comes at the next look: what is beyond a count
would else grow for a minute, and then take as long to delete."""
_LEDGER_ROUNDS = 10
"""Every so many rounds the ledger is looked at, which also cleans itself with every row."""
_BATCH = 2_000
_REST, _MOST_REST_S = 0.25, 0.2
_KEY, _KEY_MS, _RENEW_S = "pruner", 60_000, 20.0

RETENTION = (
    PruneRule(JobState.COMPLETED, age_ms=_DAY_MS, count=10_000),
    PruneRule(JobState.FAILED, age_ms=30 * _DAY_MS),
    PruneRule(JobState.COMPLETED, count=5, housekeeping=True),
    PruneRule(JobState.FAILED, count=5, housekeeping=True),
)


class Pruner:
    """A Service. It deletes in small steps and rests after each, longer where others keep it waiting, so that the
    store is never held for long. Where that would hold up others all the same, one worker at a time does so."""

    name = "pruner"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rules: Sequence[PruneRule] = RETENTION,
        *,
        ended: Callable[[], int],
        ledger_age_ms: int,
        in_turns: bool = True,
    ) -> None:
        """`ended` is how many jobs this worker has settled so far. `ledger_age_ms` is how long the ledger's rows are
        kept. `in_turns`: one worker at a time; not needed where no step holds up others, and two calls more a round."""
        self._in_turns = in_turns
        self._store, self._clock, self._rules = store, clock, rules
        self._ended, self._ledger_age_ms = ended, ledger_age_ms
        self._me = new_token().encode()

    async def serve(self) -> None:
        rounds = 0
        while True:
            ended = self._ended()
            # Whoever needs the store reports an outage; and a ledger that is broken is nothing to jobs.
            with suppress(StoreUnavailable):
                await self._prune_jobs()
            if rounds % _LEDGER_ROUNDS == 0:
                with suppress(StoreUnavailable):
                    await self._prune_ledger()
            rounds += 1
            await self._wait(ended)

    async def _prune_jobs(self) -> None:
        """A round, unless another worker is at it."""
        if not self._in_turns:
            await self._round()
            return
        keys = self._store.keys
        # Its own is there when the answer to the last deletion was lost.
        if await keys.put_if_absent(_KEY, self._me, _KEY_MS) not in (None, self._me):
            return
        try:
            await self._round()
        finally:
            with suppress(StoreUnavailable):
                await keys.delete(_KEY, self._me)

    async def _round(self) -> None:
        renewed = self._clock.monotonic()
        while True:
            began = self._clock.monotonic()
            if await self._store.jobs.prune(self._rules, _BATCH) < _BATCH:
                return
            now = self._clock.monotonic()
            if self._in_turns and now - renewed > _RENEW_S:
                if not await self._store.keys.replace(_KEY, self._me, self._me, _KEY_MS):
                    return
                renewed = now
            await self._clock.sleep(min((now - began) * _REST, _MOST_REST_S))

    async def _prune_ledger(self) -> None:
        while await self._store.ledger.prune(self._ledger_age_ms, _BATCH) >= _BATCH:
            pass

    async def _wait(self, ended: int) -> None:
        until = self._clock.monotonic() + _EVERY_S
        while (left := until - self._clock.monotonic()) > 0 and self._ended() - ended < _MANY:
            await self._clock.sleep(min(left, _LOOK_S))
