"""The health of a process: what every process looks at, and the claim round trip that proves the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.health.indication import Indicator
from workfleet.health.lag import LoopLagIndicator, LoopLagSampler
from workfleet.health.memory import MemoryIndicator
from workfleet.health.process import OwnProcess, host_memory_bytes
from workfleet.health.service import Health
from workfleet.health.store import StoreIndicator, Trip
from workfleet.ids import new_id, new_token
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.outcome import Outcome
from workfleet.observe.logs.redaction import Redactor
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.pulse import PulseRequest
from workfleet.settings.health import HealthSettings

from .client import Session
from .composition import Composition
from .policies import milliseconds

_T = TypeVar("_T")
_LEASE_MS = 10_000
_PROBE_LIMIT_S = 5.0
_OUTAGE = 1 / 6
"""The share of a lease that an outage must last to count: keepers renew with two thirds of it left."""
_STEADY_S = 8.0
"""Longer than the longest wait between two tries of a call that is insisted on."""


def health_queue(app: str) -> str:
    """The reserved queue of claim round trips."""
    return f"{app}-health"


def pulse_request(app: str, clock: Clock) -> PulseRequest:
    """A claim round trip: enqueue a job of our own, claim it and settle it, which proves that a worker can work."""
    queue = health_queue(app)
    return PulseRequest(
        probe=JobRecord(id=new_id(clock.now_ms()), queue=queue, name="probe", housekeeping=True),
        # The limit is for those that an earlier version left behind half-way.
        claim=ClaimRequest("health", new_token(), _LEASE_MS, (Want(queue, 10),)),
        done=Outcome(state=JobState.COMPLETED, code="completed", result=b"null", attempts_made=1),
    )


def health_of(
    composition: Composition,
    settings: HealthSettings,
    session: Session,
    sampler: LoopLagSampler,
    probe: StoreProbe,
    clock: Clock,
    publish: Callable[[Event], None],
) -> Health:
    """Health with the indicators that every process has, as far as the settings want them. A worker adds its own
    (`indicators.py`), and user code with `Health.add`."""
    return Health(
        _indicators(composition, settings, session, sampler, probe, clock),
        clock,
        publish,
        version=settings.version or composition.release,
        timeout_ms=milliseconds(settings.timeout),
        cache_ttl_ms=milliseconds(settings.cache_ttl),
        clean=Redactor().text,
    )


def _indicators(
    composition: Composition,
    settings: HealthSettings,
    session: Session,
    sampler: LoopLagSampler,
    probe: StoreProbe,
    clock: Clock,
) -> list[Indicator]:
    limits, indicators = settings.thresholds, list[Indicator]()
    if settings.store:

        async def round_trip() -> None:
            await (await session.store()).pulse(pulse_request(composition.app.name, clock))

        indicators.append(
            StoreIndicator(
                round_trip,
                clock,
                last=lambda: probe.last,
                degraded_from_ms=limits.store_degraded.ms,
                unhealthy_from_ms=limits.store_unhealthy.ms,
            )
        )
    if settings.event_loop:
        indicators.append(
            LoopLagIndicator(
                sampler,
                degraded_from_ms=limits.event_loop_degraded.ms,
                unhealthy_from_ms=limits.event_loop_unhealthy.ms,
                critical="event_loop" in settings.critical,
            )
        )
    if settings.memory:
        indicators.append(
            MemoryIndicator(
                OwnProcess().read,
                host_memory_bytes(),
                degraded_from=limits.memory_degraded,
                unhealthy_from=limits.memory_unhealthy,
                critical="memory" in settings.critical,
            )
        )
    return indicators


class StoreProbe:
    """What calls of the store say of its health, for the supervisor's status file and for the reaper."""

    def __init__(self, clock: Clock, *, lease_ms: int) -> None:
        self._clock = clock
        self._outage_s = lease_ms / 1000 * _OUTAGE
        self.ok_at_ms: int | None = None
        """When it last worked, in milliseconds of the monotonic clock."""
        self.error: str | None = None
        self.last: Trip | None = None
        """The last one, whether it worked or not."""
        self._well_since = float("-inf")
        self._ill_since: float | None = None

    @property
    def steady(self) -> bool:
        """Whether no outage that could have cost a lease is just over: whoever waited for the store has had his
        chance."""
        return self.error is None and self._clock.monotonic() - self._well_since >= _STEADY_S

    async def examine(self, call: Callable[[], Awaitable[_T]]) -> _T | None:
        """Make a call that proves that the store works; None when it does not. A slow one is an outage as well:
        somebody held the store's lock."""
        asked = self._clock.monotonic()
        ill_since = self._ill_since = asked if self._ill_since is None else self._ill_since
        try:
            async with asyncio.timeout(_PROBE_LIMIT_S):
                answer = await call()
        except (StoreUnavailable, TimeoutError) as error:
            self.error = str(error) or f"no answer within {_PROBE_LIMIT_S:g} s"
            now = self._clock.monotonic()
            self.last = Trip(now, (now - asked) * 1000, self.error)
            return None
        now = self._clock.monotonic()
        self.last = Trip(now, (now - asked) * 1000)
        self.error, self.ok_at_ms = None, int(now * 1000)
        self._ill_since = None
        if now - ill_since > self._outage_s:
            self._well_since = now
        return answer
