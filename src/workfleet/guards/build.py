"""From recorded specs to guards that run. The one place that knows which guard is which."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workfleet.errors import PayloadRejected
from workfleet.events import Event
from workfleet.model.declared import GuardSpec
from workfleet.ports.clock import Clock
from workfleet.ports.guards import Guard, Span
from workfleet.ports.locks import LockTaker
from workfleet.ports.metrics import Metrics
from workfleet.ports.stores import KeyStore
from workfleet.templates import Template

from .again import Again
from .breaker import CircuitBreaker
from .circuit import Rules
from .circuits import Circuits, FleetCircuits, OwnCircuits, Tell
from .fallback import Fallback
from .idempotent import Idempotent, result_codec
from .limit import FleetWindows, OwnWindows, RateLimit, Takes
from .locked import Locked
from .metered import Metered
from .outage import Outage
from .refusing import Place
from .shared import SharedValues
from .starts import Window
from .timed import Timed
from .traced import Traced


@dataclass(frozen=True)
class Tools:
    """What guards work with, given by the app."""

    locks: LockTaker
    keys: KeyStore
    now_ms: Callable[[], Awaitable[int]]
    """The store's time."""
    metrics: Metrics
    clock: Clock
    publish: Callable[[Event], None]
    span: Span
    draw: Callable[[], float]


@dataclass(frozen=True)
class Site:
    """What guards stand around: its whole name, its parameters' names, and the type of its result."""

    name: str
    parameters: Collection[str]
    result: Any
    place: Place


def build_guards(specs: Sequence[GuardSpec], site: Site, tools: Tools) -> list[Guard]:
    """The guards of one function, outermost first.

    Raises ValueError for a key that names no parameter, a fallback that wants one which is not there and a guard that
    does not belong there, and `PayloadRejected` for a result that cannot be remembered.
    """
    return [_READERS[spec.kind](spec.facts, site)(tools) for spec in specs]


def guard_faults(specs: Sequence[GuardSpec], site: Site) -> list[str]:
    """What `build_guards` would raise, of each of them, a sentence each. Nothing is made."""
    faults = []
    for spec in specs:
        try:
            _READERS[spec.kind](spec.facts, site)
        except (PayloadRejected, ValueError) as error:
            faults.append(str(error))
    return faults


Make = Callable[[Tools], Guard]
"""Makes a guard that has been read, and found to be right for its place."""


def _locked(facts: Mapping[str, Any], site: Site) -> Make:
    key = Template.parse(facts["key"], site.parameters, constant=True)
    return lambda tools: Locked(key, facts["ttl_ms"], facts["on_busy"], tools.locks, tools.publish)


def _idempotent(facts: Mapping[str, Any], site: Site) -> Make:
    key = Template.parse(facts["key"], site.parameters)
    codec = result_codec(site.name, site.result)
    limits = facts["ttl_ms"], facts["max_result_bytes"]
    return lambda tools: Idempotent(site.name, key, *limits, tools.keys, tools.clock, tools.publish, codec)


def _circuit_breaker(facts: Mapping[str, Any], site: Site) -> Make:
    key, answer = _key(facts, site), facts["fallback"]
    fallback = None if answer is None else Fallback(answer, site.parameters)

    def make(tools: Tools) -> Guard:
        only, ignore = facts["only"], facts["ignore"]
        circuits = _circuits(facts, site, tools)
        return CircuitBreaker(site.name, circuits, site.place, key=key, only=only, ignore=ignore, fallback=fallback)

    return make


def _circuits(facts: Mapping[str, Any], site: Site, tools: Tools) -> Circuits:
    rules = Rules(facts["threshold"], facts["reset_after_ms"], facts["window_ms"], facts["failure_rate"])
    own = OwnCircuits(rules, tools.clock, Tell(tools.publish, "process", rules.reset_after_ms))
    if facts["scope"] != "fleet":
        return own
    tell = Tell(tools.publish, "fleet", rules.reset_after_ms)
    outage = Outage(f"the circuit of {site.name}", tools.publish)
    return FleetCircuits(rules, _shared(tools), own, tools.clock, tell, outage)


def _rate_limit(facts: Mapping[str, Any], site: Site) -> Make:
    window, key = Window(facts["limit"], facts["per_ms"]), _key(facts, site)

    def make(tools: Tools) -> Guard:
        own = OwnWindows(window, tools.clock)
        takes: Takes = own
        if facts["scope"] == "fleet":
            takes = FleetWindows(window, _shared(tools), own, Outage(f"the rate of {site.name}", tools.publish))
        return RateLimit(
            site.name,
            window,
            takes,
            site.place,
            key=key,
            waits=facts["on_limit"] == "wait",
            clock=tools.clock,
            publish=tools.publish,
        )

    return make


def _retry(facts: Mapping[str, Any], site: Site) -> Make:
    if site.place == "run":
        raise ValueError("@retry is for methods of a pool; a handler or schedule says attempts=, backoff= and retry=")
    said = facts["attempts"], facts["backoff"], facts["on"]
    return lambda tools: Again(*said, tools.clock, tools.publish, tools.draw)


def _timeout(facts: Mapping[str, Any], site: Site) -> Make:
    if site.place == "run":
        raise ValueError("@timeout is for methods of a pool; a handler or schedule says timeout=")
    return lambda tools: Timed(facts["timeout_ms"], tools.clock)


def _metric(facts: Mapping[str, Any], _site: Site) -> Make:
    return lambda tools: Metered(facts["name"], tools.metrics, tools.clock)


def _trace(facts: Mapping[str, Any], site: Site) -> Make:
    return lambda tools: Traced(facts["name"], site.name, tools.span)


_READERS: Mapping[str, Callable[[Mapping[str, Any], Site], Make]] = {
    "locked": _locked,
    "idempotent": _idempotent,
    "circuit_breaker": _circuit_breaker,
    "rate_limit": _rate_limit,
    "retry": _retry,
    "timeout": _timeout,
    "metric": _metric,
    "trace": _trace,
}


def _key(facts: Mapping[str, Any], site: Site) -> Template | None:
    return None if facts["key"] is None else Template.parse(facts["key"], site.parameters)


def _shared(tools: Tools) -> SharedValues:
    return SharedValues(tools.keys, tools.now_ms)
