"""A worker's pulse: its one call at every poll, which says that it lives and finds out what is new.

It proves that the store works, beats the worker's record, brings back what an operator told the worker, and wakes the
scheduler and the exchange where a notification was lost, so that neither of them polls by itself as often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import structs

from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.model.fleet import Instruction, WorkerRecord
from workfleet.ports.clock import Clock
from workfleet.ports.pulse import Pulse
from workfleet.ports.stores import Store
from workfleet.queues.exchange import Exchange

from .health import StoreProbe, pulse_request
from .orders import Orders
from .pool_orders import PoolOrders

SELDOM = 6
"""Polls after which somebody looks all the same who is woken by pulses: they may fail for a while."""
_LONGEST_S, _AGAIN_S = 10.0, 1.0


class WorkerPulse:
    """A Service. A record that somebody deleted while we live is registered again. `probe` is told how the store is:
    while it is ill, the pulse is taken every second. `then` hears what an operator says (see `Orders`). `restore` is
    called where no worker at all is registered any more: the store has lost everything. What `pools` is ordered is
    carried out, and how they are then is told at once."""

    name = "pulse"

    def __init__(
        self,
        store: Store,
        record: WorkerRecord,
        exchange: Exchange,
        probe: StoreProbe,
        then: Callable[[Instruction | None], None],
        restore: Callable[[], Awaitable[None]],
        pools: PoolOrders,
        *,
        poll_ms: int,
        clock: Clock,
        publish: Callable[[Event], None],
    ) -> None:
        self._store, self._record, self._exchange, self._probe = store, record, exchange, probe
        self._orders = Orders(record.id, exchange, then, publish)
        self._restore, self._pools = restore, pools
        self._every_s, self._clock = min(poll_ms / 1000, _LONGEST_S), clock

    async def serve(self) -> None:
        while True:
            await self.once()
            await self._clock.sleep(self._every_s if self._probe.error is None else min(_AGAIN_S, self._every_s))

    async def once(self) -> None:
        """Take it once."""
        was_well = self._probe.error is None
        pulse = await self._probe.examine(self._take)
        if pulse is None:
            if was_well:
                self._exchange.wake()  # it tells of the outage, and outlasts it
            return
        if pulse.worker is None:
            try:
                if not await self._store.fleet.workers():
                    await self._restore()
                await self._store.fleet.register(self._record)
            except StoreUnavailable:
                return  # the next pulse finds no record again
            self._orders.hear(None)
            return
        self._orders.hear(pulse.worker.instruction)
        if await self._pools.hear(pulse.worker.orders):
            await self._probe.examine(self._take)

    async def _take(self) -> Pulse:
        # What is due before the next pulse has come back is news now: whoever looks then knows when.
        request = structs.replace(
            pulse_request(self._store.app, self._clock),
            worker=self._record.id,
            active=self._exchange.active,
            pools=self._pools.reports(),
            obeyed=self._pools.obeyed,
            queues=self._record.queues,
            within_ms=int(self._every_s * 2_000),
        )
        return await self._store.pulse(request)
