"""Where circuits are kept: in this process, or in the store for the whole fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from workfleet.bus import shown
from workfleet.errors import CircuitOpen, StoreUnavailable
from workfleet.events import CircuitClosed, CircuitHalfOpened, CircuitOpened, Event
from workfleet.ids import new_token
from workfleet.ports.clock import Clock

from .circuit import CLOSED, Circuit, Rules, Tally
from .outage import Outage
from .shared import SharedValues

_MOST = 10_000
"""Circuits that one process keeps; those that were used the longest time ago make room."""
_KEPT_MS = 86_400_000
_TOLD_AGAIN_S = 1.0
"""Successes that only a rate counts are told to the fleet at most this often."""
_OK, _FAILED = Tally(ok=1), Tally(failed=1)


@dataclass(frozen=True)
class Admission:
    """A call that may be made: on probe when it has a token, and by whose state it was let through."""

    circuit: str
    token: str | None
    by: Circuits
    spotless: bool = False
    """Nothing had failed when it began."""


class Circuits(Protocol):
    """The circuits of one guard, by name."""

    async def admit(self, circuit: str) -> Admission:
        """Let a call through. Raises `CircuitOpen`."""
        ...

    async def ended(self, admission: Admission, error: BaseException | None, *, counts: bool) -> None:
        """How the call ended. What does not count tells nothing, and frees the probe for the next one."""
        ...


class OwnCircuits:
    """The circuits of this process."""

    def __init__(self, rules: Rules, clock: Clock, tell: Tell) -> None:
        self._rules, self._clock, self._tell = rules, clock, tell
        self._circuits: dict[str, Circuit] = {}

    async def admit(self, circuit: str) -> Admission:
        token, there = new_token(), self._circuits.get(circuit, CLOSED)
        after, verdict, wait_ms = self._rules.admit(there, self._now_ms(), token)
        if verdict == "refused":
            raise CircuitOpen(circuit, wait_ms)
        if verdict == "closed":
            return Admission(circuit, None, self)
        self._keep(circuit, after)
        self._tell.half_opened(circuit)
        return Admission(circuit, token, self)

    async def ended(self, admission: Admission, error: BaseException | None, *, counts: bool) -> None:
        there, now_ms = self._circuits.get(admission.circuit, CLOSED), self._now_ms()
        tally = _tally(error, counts=counts)
        if admission.token is not None:
            after = self._rules.after_probe(there, now_ms, admission.token, tally)
        elif tally is not None:
            after = self._rules.after_calls(there, now_ms, tally)
        else:
            return
        self._keep(admission.circuit, after)
        self._tell.change(admission.circuit, there, after, error)

    def note(self, circuit: str, error: BaseException | None) -> None:
        """A call that the fleet's state has let through has ended: a success means that nothing is wrong."""
        there = self._circuits.get(circuit, CLOSED)
        if error is None and there.open_until_ms is not None:
            self._keep(circuit, CLOSED)
        else:
            self._keep(circuit, self._rules.after_calls(there, self._now_ms(), _OK if error is None else _FAILED))

    def _keep(self, circuit: str, state: Circuit) -> None:
        self._circuits.pop(circuit, None)
        if state != CLOSED:
            self._circuits[circuit] = state
            if len(self._circuits) > _MOST:
                del self._circuits[next(iter(self._circuits))]

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)


class FleetCircuits:
    """The circuits of the fleet, in the store and by its time. While the store is away, `own` judges: it has counted
    what this process has seen itself."""

    def __init__(
        self, rules: Rules, values: SharedValues, own: OwnCircuits, clock: Clock, tell: Tell, outage: Outage
    ) -> None:
        self._rules, self._values, self._own = rules, values, own
        self._clock, self._tell, self._outage = clock, tell, outage
        self._untold: dict[str, tuple[int, float]] = {}
        """Successes that only a rate counts, and when they were told the last time."""
        # What has expired is a closed circuit, so it must outlive the time that it is open and any window.
        self._ttl_ms = _KEPT_MS + rules.reset_after_ms + (rules.window_ms or 0)

    async def admit(self, circuit: str) -> Admission:
        try:
            there = await self._values.read(_key(circuit))
            state = _decoded(there)
            if state.open_until_ms is not None:
                return await self._try(circuit)
        except StoreUnavailable as error:
            self._outage.began(error)
            return await self._own.admit(circuit)
        self._outage.over()
        return Admission(circuit, None, self, spotless=not state.failures)

    async def _try(self, circuit: str) -> Admission:
        """A circuit that was open: refused, or the probe if its time has come."""
        token = new_token()

        def decide(there: bytes | None, now_ms: int) -> tuple[bytes | None, tuple[str, int]]:
            after, verdict, wait_ms = self._rules.admit(_decoded(there), now_ms, token)
            return msgspec.json.encode(after) if verdict == "probe" else None, (verdict, wait_ms)

        verdict, wait_ms = await self._values.change(_key(circuit), self._ttl_ms, decide)
        self._outage.over()
        if verdict == "refused":
            raise CircuitOpen(circuit, wait_ms)
        if verdict == "closed":
            return Admission(circuit, None, self)
        self._tell.half_opened(circuit)
        return Admission(circuit, token, self)

    async def ended(self, admission: Admission, error: BaseException | None, *, counts: bool) -> None:
        circuit, tally = admission.circuit, _tally(error, counts=counts)
        if tally is not None:
            self._own.note(circuit, error)
        if admission.token is not None:
            await self._change(circuit, error, partial(self._probed, admission.token, tally))
        elif tally is _FAILED:
            failed = Tally(ok=self._untold.pop(circuit, (0, 0.0))[0], failed=1)
            await self._change(circuit, error, partial(self._called, failed))
        elif tally is _OK and self._rules.counts_successes:
            await self._succeeded(circuit)
        elif tally is _OK and not admission.spotless:
            await self._change(circuit, error, partial(self._called, _OK))

    async def _succeeded(self, circuit: str) -> None:
        """Count a success of which only the rate knows: told now and then, or with the next failure."""
        now = self._clock.monotonic()
        untold, told_at = self._untold.pop(circuit, (0, now - _TOLD_AGAIN_S))
        due = now - told_at >= _TOLD_AGAIN_S
        self._untold[circuit] = (0, now) if due else (untold + 1, told_at)
        if len(self._untold) > _MOST:
            del self._untold[next(iter(self._untold))]
        if due:
            await self._change(circuit, None, partial(self._called, Tally(ok=untold + 1)))

    def _probed(self, token: str, tally: Tally | None, state: Circuit, now_ms: int) -> Circuit:
        return self._rules.after_probe(state, now_ms, token, tally)

    def _called(self, tally: Tally, state: Circuit, now_ms: int) -> Circuit:
        return self._rules.after_calls(state, now_ms, tally)

    async def _change(
        self, circuit: str, error: BaseException | None, after_of: Callable[[Circuit, int], Circuit]
    ) -> None:
        def decide(there: bytes | None, now_ms: int) -> tuple[bytes | None, tuple[Circuit, Circuit]]:
            before = _decoded(there)
            after = after_of(before, now_ms)
            return None if after == before else msgspec.json.encode(after), (before, after)

        try:
            before, after = await self._values.change(_key(circuit), self._ttl_ms, decide)
        except StoreUnavailable as unavailable:
            self._outage.began(unavailable)  # the call has ended, and `own` has counted it
            return
        self._outage.over()
        self._tell.change(circuit, before, after, error)


@dataclass(frozen=True)
class Tell:
    """Says what circuits do."""

    publish: Callable[[Event], None]
    scope: str
    reset_after_ms: int

    def half_opened(self, circuit: str) -> None:
        self.publish(CircuitHalfOpened(circuit=circuit, scope=self.scope))

    def change(self, circuit: str, before: Circuit, after: Circuit, error: BaseException | None) -> None:
        """A call has ended: say so if that has opened the circuit or closed it."""
        if after.open_until_ms == before.open_until_ms:
            return
        if after.open_until_ms is None:
            self.publish(CircuitClosed(circuit=circuit, scope=self.scope))
        else:
            said = "" if error is None else shown(error)
            opened = CircuitOpened(circuit=circuit, scope=self.scope, reset_after_ms=self.reset_after_ms, error=said)
            self.publish(opened)


def _tally(error: BaseException | None, *, counts: bool) -> Tally | None:
    if not counts:
        return None
    return _OK if error is None else _FAILED


def _decoded(there: bytes | None) -> Circuit:
    try:
        return CLOSED if there is None else msgspec.json.decode(there, type=Circuit)
    except msgspec.DecodeError:
        return CLOSED  # of another release: calls must not stop because of that


def _key(circuit: str) -> str:
    return f"circuit {circuit}"
