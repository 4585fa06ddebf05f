"""What a worker brings back into a store that has lost everything: a Redis that was emptied, or that keeps nothing and
was restarted. Until the next start nobody else would, and schedules would be silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from workfleet.events import Event, StoreRestored
from workfleet.model.limits import QueueLimits
from workfleet.ports.stores import Store
from workfleet.schedules.scheduler import anchored

from .definitions import Definition


async def restore(
    store: Store,
    definitions: Sequence[Definition],
    limits: Mapping[str, QueueLimits],
    publish: Callable[[Event], None],
) -> None:
    """Add the schedules of the code that are missing, due from now on, and the limits of queues. What is there stays as
    it is: another release may have defined it. Raises `StoreUnavailable`."""
    now = await store.now_ms()
    shared = [anchored(structs.replace(each.record), now) for each in definitions if not each.per_process]
    added = [await store.schedules.put(record, replace=False) for record in shared]
    await store.queues.set_limits(limits)
    publish(StoreRestored(schedules=sum(added)))
