"""The state of one circuit, and how calls change it: closed, open, half-open (Nygard, Release It!, 2007).

Pure decisions over a value that can be stored, so that one process and a whole fleet go by the same rules. It must not
know where a state is kept or whose clock gives the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

_SLICES = 60
_PROBED_MS = 100, 5_000
"""The shortest and the longest wait that is told while a call is on probe, which mostly ends long before its lease."""

Verdict = Literal["closed", "probe", "refused"]


class Slice(Struct, frozen=True, array_like=True):
    """What ended within one slice of the window, by the slice's beginning."""

    start_ms: int
    calls: int
    failures: int


class Circuit(Struct, frozen=True, omit_defaults=True):
    """One circuit. It is open until `open_until_ms`, then half-open until a probe has told."""

    failures: int = 0
    """In a row; not counted with a window."""
    slices: tuple[Slice, ...] = ()
    open_until_ms: int | None = None
    probe: str | None = None
    """Who is on probe, while its lease lasts."""
    probe_until_ms: int = 0


CLOSED = Circuit()
"""Nothing has failed."""


class Tally(Struct, frozen=True):
    """Calls that have ended since this was told the last time."""

    ok: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Rules:
    """When a circuit opens and for how long. A probe's lease is `reset_after_ms` as well."""

    threshold: int
    reset_after_ms: int
    window_ms: int | None = None
    failure_rate: float | None = None

    @property
    def counts_successes(self) -> bool:
        """Whether calls that succeed must be counted, and not only end a row of failures."""
        return self.failure_rate is not None

    def admit(self, circuit: Circuit, now_ms: int, token: str) -> tuple[Circuit, Verdict, int]:
        """What a call may do, with the state after that, and in how many milliseconds to ask again if it may not."""
        if circuit.open_until_ms is None:
            return circuit, "closed", 0
        if now_ms < circuit.open_until_ms:
            return circuit, "refused", circuit.open_until_ms - now_ms
        if circuit.probe is not None and now_ms < circuit.probe_until_ms:
            shortest, longest = _PROBED_MS
            wait = min(max(self.reset_after_ms // 10, shortest), longest, circuit.probe_until_ms - now_ms)
            return circuit, "refused", wait
        until = now_ms + self.reset_after_ms
        return Circuit(open_until_ms=circuit.open_until_ms, probe=token, probe_until_ms=until), "probe", 0

    def after_probe(self, circuit: Circuit, now_ms: int, token: str, tally: Tally | None) -> Circuit:
        """After the probe has succeeded, failed, or told nothing (None). One whose lease is another's changes
        nothing."""
        if circuit.probe != token:
            return circuit
        if tally is None:
            return Circuit(open_until_ms=circuit.open_until_ms)
        return Circuit(open_until_ms=now_ms + self.reset_after_ms) if tally.failed else CLOSED

    def after_calls(self, circuit: Circuit, now_ms: int, tally: Tally) -> Circuit:
        """After calls that a closed circuit let through. Where it has opened since, they say nothing of now."""
        if circuit.open_until_ms is not None:
            return circuit
        if self.window_ms is None:
            failures = circuit.failures + tally.failed if tally.failed else 0
            return self._judged(Circuit(failures=failures), failures, now_ms)
        slices = self._added(circuit.slices, now_ms, tally, self.window_ms)
        failures, calls = sum(each.failures for each in slices), sum(each.calls for each in slices)
        if self.failure_rate is not None and failures < self.failure_rate * calls:
            failures = 0
        return self._judged(Circuit(slices=slices), failures, now_ms)

    def _judged(self, circuit: Circuit, failures: int, now_ms: int) -> Circuit:
        return Circuit(open_until_ms=now_ms + self.reset_after_ms) if failures >= self.threshold else circuit

    def _added(self, slices: tuple[Slice, ...], now_ms: int, tally: Tally, window_ms: int) -> tuple[Slice, ...]:
        """The window's slices with these calls. Failures alone are kept by the millisecond, as there are never more
        than `threshold`; with successes a slice is a sixtieth of the window."""
        kept = [each for each in slices if each.start_ms + window_ms > now_ms]
        width = max(window_ms // _SLICES, 1) if self.counts_successes else 1
        calls = tally.failed + (tally.ok if self.counts_successes else 0)
        if not calls:
            return tuple(kept)
        start = now_ms - now_ms % width
        same = next((each for each in kept if each.start_ms == start), None)
        if same is not None:
            kept.remove(same)
            calls += same.calls
        failures = tally.failed + (same.failures if same is not None else 0)
        return (*kept, Slice(start, calls, failures))
