"""The guards of an application's functions, made with the tools of its graph."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from workfleet.bus import Bus
from workfleet.errors import Problem
from workfleet.guards.build import Site, Tools, build_guards, guard_faults
from workfleet.guards.refusing import Place
from workfleet.locks.locks import Locks
from workfleet.model.declared import GuardSpec
from workfleet.observe.trace import span, told_by
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Guard
from workfleet.ports.metrics import Metrics
from workfleet.ports.stores import Store


class GuardMaker:
    """Makes guards for recorded specs. Raises ValueError for a key that cannot be filled and for a guard that does not
    belong there, and `PayloadRejected` for a result that cannot be kept."""

    def __init__(self, locks: Locks, store: Store, metrics: Metrics, clock: Clock, bus: Bus) -> None:
        self._tools = Tools(
            locks=locks,
            keys=store.keys,
            now_ms=store.now_ms,
            metrics=metrics,
            clock=clock,
            publish=bus.publish,
            span=partial(span, failed=told_by(bus.publish)),
            draw=random.random,
        )

    def __call__(self, specs: Sequence[GuardSpec], name: str, parameters: Sequence[str], result: Any) -> list[Guard]:
        """Around the runs of a handler or of a scheduled function."""
        return build_guards(specs, Site(name, parameters, result, "run"), self._tools)

    def of_method(self, specs: Sequence[GuardSpec], name: str, parameters: Sequence[str], result: Any) -> list[Guard]:
        """Around the calls of a pool's method."""
        return build_guards(specs, Site(name, parameters, result, "method"), self._tools)


def guard_problems(
    specs: Sequence[GuardSpec], name: str, parameters: Sequence[str], result: Any, place: Place
) -> list[Problem]:
    """What is wrong with the guards of a function. Nothing is made, and no store is opened."""
    return [Problem(name, fault) for fault in guard_faults(specs, Site(name, parameters, result, place))]
