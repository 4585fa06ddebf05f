"""The guard decorators. They check their arguments and record; `build.py` makes what runs.

Top = outermost, as with any decorator. On pool methods guards run in the parent, so that a breaker sees a killed child.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from workfleet.model.declared import GuardSpec, add_guard
from workfleet.model.durations import DurationLike, duration_ms

F = TypeVar("F", bound=Callable[..., Any])
OnBusy = Literal["skip", "raise", "wait"]
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def locked(key: str, /, *, ttl: DurationLike | None = None, on_busy: OnBusy = "skip") -> Callable[[F], F]:
    """Run only while holding a distributed lock. `key` may name parameters: "report:{job.data.tenant}".

    Somebody else has it: "skip" ends the run as skipped, "raise" fails the attempt with `LockBusy`, "wait" waits. `ttl`
    (default: the lock module's) is renewed while the function runs."""
    if not key.strip():
        raise ValueError("a lock's key cannot be empty")
    if on_busy not in ("skip", "raise", "wait"):
        raise ValueError(f"on_busy={on_busy!r}: it is 'skip', 'raise' or 'wait'")
    return _guard("locked", key=key, ttl_ms=None if ttl is None else duration_ms(ttl), on_busy=on_busy)


def idempotent(key: str, /, *, ttl: DurationLike = "1h") -> Callable[[F], F]:
    """Do each key's work once: a repeat within `ttl` gets the first result, a concurrent one waits for it.

    `key` names parameters, such as "{job_id}" or just "job_id". A failure is not remembered. The result must be
    storable."""
    if duration_ms(ttl) <= 0:
        raise ValueError(f"ttl={ttl!r}: a result must be remembered for some time")
    return _guard("idempotent", key=key, ttl_ms=duration_ms(ttl))


def circuit_breaker(*, threshold: int = 5, reset_after: DurationLike = "30s") -> Callable[[F], F]:
    """After `threshold` failures in a row refuse calls with `CircuitOpen` for `reset_after`, then let one through
    to try."""
    if threshold < 1:
        raise ValueError(f"threshold={threshold}: it must be 1 or more")
    return _guard("circuit_breaker", threshold=threshold, reset_after_ms=duration_ms(reset_after))


def metric(name: str, /) -> Callable[[F], F]:
    """Count the calls and their outcomes, and measure how long they take, under this name."""
    if not _METRIC.fullmatch(name):
        raise ValueError(f"metric {name!r}: a name is ASCII letters, digits, '_', '.' and '-', no digit first")
    return _guard("metric", name=name)


def trace(fn: F, /) -> F:
    """Run inside an OpenTelemetry span that is named after the function."""
    return cast(F, add_guard(fn, GuardSpec("trace")))


def _guard(kind: str, /, **facts: Any) -> Callable[[F], F]:
    def record(fn: F) -> F:
        return cast(F, add_guard(fn, GuardSpec(kind, facts)))

    return record
