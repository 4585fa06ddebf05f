"""Finds work whose worker is gone and that nobody has taken over: after a power cut, an outage, a kill of everything.

It runs in every worker; several at a time do no harm, because a job is taken over by one of them. It does not know how
processes are told apart: it is given a function that says whether one lives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workfleet.errors import StoreUnavailable
from workfleet.events import Event, StoreTrouble
from workfleet.ids import new_token
from workfleet.model.fleet import ProcessIdentity, WorkerRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store

from .recovery import recover

_FORGET_MS = 86_400_000
_QUIET_POLLS = 3
_GONE = "the process of worker {worker} is gone"
_EXPIRED = "lease expired on worker {worker}"


class Reaper:
    """A Service. `bury` is called once before anything else of the worker, so that a restart waits for no lease."""

    name = "reaper"

    def __init__(
        self,
        store: Store,
        *,
        worker: str,
        is_alive: Callable[[ProcessIdentity], bool],
        lease_ms: int,
        poll_ms: int,
        max_crashes: int,
        clock: Clock,
        publish: Callable[[Event], None],
        steady: Callable[[], bool] = lambda: True,
        locks: Callable[[], Awaitable[Store]] | None = None,
    ) -> None:
        """`is_alive` answers True for processes that it cannot judge, such as another machine's. `steady` says whether
        the store has taken writes for a while: reads go on while somebody holds its lock, and leases expire.
        `locks` gives the store of the locks, where that is another one."""
        self._store, self._worker, self._is_alive = store, worker, is_alive
        self._lease_ms, self._poll_ms, self._max_crashes = lease_ms, poll_ms, max_crashes
        self._clock, self._publish, self._steady = clock, publish, steady
        self._locks = locks
        self._suspects: set[str] = set()
        self._token: str | None = None
        """Under which expired leases were asked for without an answer."""
        self._failing = self._quiet = False
        self._offset_ms = self._wall_offset_ms()

    async def serve(self) -> None:
        self._offset_ms = self._wall_offset_ms()
        while True:
            await self._clock.sleep(self._wait_ms() / 1000)
            await self._round()

    def _wait_ms(self) -> int:
        """While nobody runs anything, no lease can end before a lease is over: there is nothing to look for."""
        return max(min(self._lease_ms, _QUIET_POLLS * self._poll_ms), self._poll_ms) if self._quiet else self._poll_ms

    async def bury(self) -> int:
        """Take over the jobs of this machine's workers whose process is gone. Returns how many jobs that were.

        Raises StoreUnavailable."""
        records = await self._store.fleet.workers()
        return sum([await self._bury(record) for record in self._dead(records)])

    async def _round(self) -> None:
        """A store that is down is told once; the next poll tries again."""
        rested, quiet, self._quiet = self._rested(), False, False
        try:
            records = await self._store.fleet.workers()
            if rested:
                left_ms = await self._store.jobs.expires_in_ms()
                quiet = left_ms is None
                if self._token is not None or (left_ms is not None and left_ms <= 0):
                    token = self._token = self._token or new_token()
                    await self._take_over(None, _EXPIRED, token)
                    self._token = None
            await self._bury_suspects(records)
            await self._forget_the_old(records)
        except StoreUnavailable as error:
            if not self._failing:
                self._publish(StoreTrouble(what="looking for work of dead workers", error=str(error)))
            self._failing = True
        else:
            self._failing = False
            self._quiet = quiet and not self._suspects

    def _rested(self) -> bool:
        """Whether keepers had their chance.

        After an outage of the store or a sleep of this machine, leases have expired whose jobs still run: taking those
        over would run them twice, so it waits for the next poll."""
        offset_ms = self._wall_offset_ms()
        slept = offset_ms - self._offset_ms > self._lease_ms / 3
        self._offset_ms = offset_ms
        return self._steady() and not (slept or self._failing)

    def _wall_offset_ms(self) -> float:
        """Grows by the time that the machine slept, which the monotonic clock does not count."""
        return self._clock.now_ms() - self._clock.monotonic() * 1000

    async def _bury_suspects(self, records: list[WorkerRecord]) -> None:
        """Only who was dead at the last poll already: a supervisor that lives knows better how its worker died."""
        dead = self._dead(records)
        for record in dead:
            if record.id in self._suspects:
                await self._bury(record)
        self._suspects = {record.id for record in dead}

    async def _bury(self, record: WorkerRecord) -> int:
        # First the locks, or a job that runs again at once finds its own still taken.
        await self._free(record.id)
        taken = await self._take_over((record.id,), _GONE, new_token())
        # Last: as long as the record is there, whatever failed above is done again.
        await self._store.fleet.forget(record.id)
        return taken

    async def _free(self, worker: str) -> None:
        """Its locks. Where their own store is away they expire by themselves: jobs do not wait for it."""
        try:
            locks = (self._store if self._locks is None else await self._locks()).locks
            for lock in await locks.held():
                if lock.owner.startswith(f"{worker}:"):
                    await locks.release(lock.name, lock.owner)
        except StoreUnavailable:
            if self._locks is None:
                raise

    async def _forget_the_old(self, records: list[WorkerRecord]) -> None:
        """Machines that never came back. The newest sign of life, usually this worker's own, stands for now."""
        newest_ms = max((record.seen_ms for record in records), default=0)
        for record in records:
            if newest_ms - record.seen_ms > _FORGET_MS:
                await self._store.fleet.forget(record.id)

    def _dead(self, records: list[WorkerRecord]) -> list[WorkerRecord]:
        return [record for record in records if record.id != self._worker and not self._is_alive(record.identity)]

    async def _take_over(self, workers: tuple[str, ...] | None, how: str, token: str) -> int:
        request = TakeOver(self._worker, token, self._lease_ms, workers=workers)
        return await recover(
            self._store.jobs,
            request,
            how,
            max_crashes=self._max_crashes,
            clock=self._clock,
            publish=self._publish,
        )
