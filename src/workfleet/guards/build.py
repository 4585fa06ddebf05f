"""From recorded specs to guards that run. The one place that knows which guard is which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from workfleet.events import Event
from workfleet.model.declared import GuardSpec
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Call, Guard, Proceed
from workfleet.ports.locks import LockTaker
from workfleet.ports.metrics import Metrics
from workfleet.ports.stores import KeyStore
from workfleet.templates import Template

from .breaker import CircuitBreaker
from .idempotent import Idempotent
from .locked import Locked
from .metered import Metered


@dataclass(frozen=True)
class Tools:
    """What guards work with, given by the app."""

    locks: LockTaker
    keys: KeyStore
    metrics: Metrics
    clock: Clock
    publish: Callable[[Event], None]
    span: Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class _Traced:
    span: Callable[[str], AbstractContextManager[object]]

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        with self.span(call.name):
            return await proceed()


def build_guards(
    specs: Sequence[GuardSpec], name: str, parameters: Collection[str], tools: Tools, result: Any
) -> list[Guard]:
    """The guards of one function, outermost first. `result` is the type of what it returns.

    Raises ValueError for a key that names no parameter, and `PayloadRejected` for a result that cannot be remembered.
    """
    return [_build(spec, name, parameters, tools, result) for spec in specs]


def _build(spec: GuardSpec, name: str, parameters: Collection[str], tools: Tools, result: Any) -> Guard:
    facts = spec.facts
    if spec.kind == "locked":
        key = Template.parse(facts["key"], parameters, constant=True)
        return Locked(key, facts["ttl_ms"], facts["on_busy"], tools.locks, tools.publish)
    if spec.kind == "idempotent":
        key = Template.parse(facts["key"], parameters)
        return Idempotent(name, key, facts["ttl_ms"], tools.keys, tools.clock, tools.publish, result)
    if spec.kind == "circuit_breaker":
        return CircuitBreaker(name, facts["threshold"], facts["reset_after_ms"], tools.clock)
    if spec.kind == "metric":
        return Metered(facts["name"], tools.metrics, tools.clock)
    return _Traced(tools.span)
