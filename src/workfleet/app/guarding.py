"""The guards of an application's functions, made with the tools of its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workfleet.bus import Bus
from workfleet.guards.build import Tools, build_guards
from workfleet.locks.locks import Locks
from workfleet.model.declared import GuardSpec
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.trace import span
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Guard
from workfleet.ports.stores import Store


class GuardMaker:
    """Makes guards for recorded specs."""

    def __init__(self, locks: Locks, store: Store, metrics: MetricsRegistry, clock: Clock, bus: Bus) -> None:
        self._tools = Tools(locks, store.keys, metrics, clock, bus.publish, span)

    def __call__(self, specs: Sequence[GuardSpec], name: str, parameters: Sequence[str], result: Any) -> list[Guard]:
        """Raises ValueError for a key that cannot be filled, and `PayloadRejected` for a result that cannot be kept."""
        return build_guards(specs, name, parameters, self._tools, result)
