"""A worker's slots: which are used, which a call under way has asked for, and what there is to claim for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from workfleet.ports.jobs import Want

from .handlers import HandlerTable
from .shares import wants_of


class Ask(Struct, frozen=True):
    """What one call asks for: `total` jobs of `wants`, in slots that are free and those that it frees itself."""

    wants: tuple[Want, ...]
    total: int
    freed: dict[str, int]

    def net(self, queue: str) -> int:
        """How many slots of a queue are taken while the call is under way, beside those in use."""
        asked = sum(want.limit for want in self.wants if want.queue == queue)
        return asked - self.freed.get(queue, 0)

    @property
    def net_total(self) -> int:
        return self.total - sum(self.freed.values())


class Slots:
    """For one event loop."""

    def __init__(self, table: HandlerTable) -> None:
        self._table = table
        self._used: Counter[str] = Counter()
        self._asks: list[Ask] = []
        self._turn = 0

    def ask(self, freed: Sequence[str], *, claiming: bool) -> Ask:
        """What a call may ask for that frees slots of these queues."""
        gives = Counter(freed)
        if not claiming:
            return Ask((), 0, gives)
        table = self._table
        free = [
            (queue, limit - self._used[queue] + gives[queue] - sum(ask.net(queue) for ask in self._asks))
            for queue, limit in table.concurrency.items()
        ]
        total = None
        if table.total is not None:
            total = table.total - self._used.total() + gives.total() - sum(ask.net_total for ask in self._asks)
        wants = wants_of(free, table.weights, total, self._turn)
        asked = sum(want.limit if want.share is None else want.share for want in wants)
        return Ask(wants, asked, gives)

    def begin(self, ask: Ask) -> None:
        """The call is under way."""
        self._turn += 1
        self._asks.append(ask)

    def end(self, ask: Ask, claimed: Sequence[str]) -> None:
        """The call has been answered: what it was to free is free, and jobs of these queues were claimed."""
        self.give_up(ask)
        self._used.subtract(ask.freed)
        self._used.update(claimed)

    def give_up(self, ask: Ask) -> None:
        """The call has not been answered."""
        self._asks.remove(ask)
