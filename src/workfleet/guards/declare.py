"""The guard decorators. They check their arguments and record; `build.py` makes what runs. docs/guards.md has them all.

Top = outermost, as with any decorator. On pool methods guards run in the parent, so that a breaker sees a killed child.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast, overload

from workfleet.model.declared import GuardSpec, add_guard
from workfleet.model.durations import DurationLike, SizeLike, duration_ms, format_size, size_bytes
from workfleet.model.policy import BackoffLike, backoff_of, exponential
from workfleet.model.queue import LARGEST_PAYLOAD

from .kinds import Kinds, kinds_of

F = TypeVar("F", bound=Callable[..., Any])
OnBusy = Literal["skip", "raise", "wait"]
OnLimit = Literal["raise", "wait"]
Scope = Literal["process", "fleet"]
_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MOST_CALLS = 1_000_000


def locked(key: str, /, *, ttl: DurationLike | None = None, on_busy: OnBusy = "skip") -> Callable[[F], F]:
    """Run only while holding a distributed lock. `key` may name parameters: "report:{job.data.tenant}".

    Somebody else has it: "skip" ends the run as skipped, "raise" fails the attempt with `LockBusy`, "wait" waits. `ttl`
    (default: the lock module's) is renewed while the function runs."""
    if not key.strip():
        raise ValueError("a lock's key cannot be empty")
    _one_of("on_busy", on_busy, "skip", "raise", "wait")
    return _guard("locked", key=key, ttl_ms=None if ttl is None else duration_ms(ttl), on_busy=on_busy)


def idempotent(key: str, *, ttl: DurationLike = "1h", max_result: SizeLike = "64MiB") -> Callable[[F], F]:
    """Do each key's work once in the fleet: a repeat within `ttl` gets the first result, a concurrent one waits for it.

    `key` names parameters, such as "{job_id}" or just "job_id". A failure is not remembered. A result that cannot be
    stored, or is larger than `max_result` as JSON, fails the call with `Fail`, which says why."""
    size = size_bytes(max_result)
    if not 1 <= size <= LARGEST_PAYLOAD:
        raise ValueError(f"max_result={max_result!r}: it is 1B to {format_size(LARGEST_PAYLOAD)}")
    return _guard("idempotent", key=key, ttl_ms=_some_time("ttl", ttl), max_result_bytes=size)


def circuit_breaker(
    *,
    threshold: int = 5,
    reset_after: DurationLike = "30s",
    window: DurationLike | None = None,
    failure_rate: float | None = None,
    scope: Scope = "process",
    key: str | None = None,
    only: Kinds | None = None,
    ignore: Kinds = (),
    fallback: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Refuse calls with `CircuitOpen` for `reset_after` once `threshold` have failed: in a row, or with a `window`
    within that time, and then, with a `failure_rate`, only if they are this share of the calls in it.

    After `reset_after` one call goes through as the probe: it closes the circuit or opens it anew. `scope` "fleet": all
    processes share one circuit, which is kept in the store. A `key` such as "job.data.host" has a circuit for each of
    its values. Exceptions other than `only`, and those of `ignore`, are no failures. `fallback` answers for a refused
    call, never for one that failed; it is given the call's values that it has parameters for.

    A refused run of a handler or a schedule is tried again when it may, without counting an attempt."""
    _whole("threshold", threshold)
    if failure_rate is not None:
        if window is None:
            raise ValueError("failure_rate= is a share of the calls within a window: give window= as well")
        if isinstance(failure_rate, bool) or not 0 < failure_rate <= 1:
            raise ValueError(f"failure_rate={failure_rate!r}: it is a share above 0, up to 1, such as 0.5")
    _one_of("scope", scope, "process", "fleet")
    if fallback is not None and not callable(fallback):
        raise ValueError(f"fallback={fallback!r}: it is a function, such as lambda: {fallback!r}")
    return _guard(
        "circuit_breaker",
        threshold=threshold,
        reset_after_ms=_some_time("reset_after", reset_after),
        window_ms=None if window is None else _some_time("window", window),
        failure_rate=failure_rate,
        scope=scope,
        key=key,
        only=None if only is None else kinds_of(only, "only"),
        ignore=kinds_of(ignore, "ignore"),
        fallback=fallback,
    )


def rate_limit(
    limit: int, per: DurationLike, *, key: str | None = None, on_limit: OnLimit = "raise", scope: Scope = "process"
) -> Callable[[F], F]:
    """At most `limit` calls within any time of the length `per`, in each process or in the fleet; with a `key` for each
    of its values.

    One more is refused with `RateLimited`, or, with "wait", waits for its turn. A refused run of a handler or a
    schedule is tried again when it may, without counting an attempt."""
    _whole("limit", limit)
    _one_of("on_limit", on_limit, "raise", "wait")
    _one_of("scope", scope, "process", "fleet")
    return _guard("rate_limit", limit=limit, per_ms=_some_time("per", per), key=key, on_limit=on_limit, scope=scope)


def retry(
    attempts: int = 3,
    *,
    backoff: BackoffLike | None = exponential("100ms", cap="10s"),  # noqa: B008 - a frozen value
    on: Kinds | None = None,
) -> Callable[[F], F]:
    """Call a pool method up to `attempts` times in all, with a wait between two calls. For pool methods only.

    `on` says after which exceptions; left out: after all but those that another call does not help (docs/guards.md)."""
    _whole("attempts", attempts)
    wait = backoff_of(backoff)
    if wait.kind == "own":
        raise ValueError("backoff=own_backoff(…) belongs to jobs: give a duration, or exponential, linear or fixed")
    return _guard("retry", attempts=attempts, backoff=wait, on=None if on is None else kinds_of(on, "on"))


def timeout(after: DurationLike, /) -> Callable[[F], F]:
    """Cancel a pool method's call that has not ended after this time: it raises `CallTimeout`, and the process that
    works on it is killed. What stands below counts: waits and repeated calls. For pool methods only."""
    return _guard("timeout", timeout_ms=_some_time("timeout", after))


@overload
def metric(name: F, /) -> F: ...
@overload
def metric(name: str | None = None, /) -> Callable[[F], F]: ...
def metric(name: Any = None, /) -> Any:
    """Count the calls and their outcomes, and measure how long they take, under this name; without one under the
    function's: `ImageWorker.resize` is "image_worker.resize". `@metric` and `@metric("images.resize")`."""
    if _is_function(name):
        return add_guard(name, GuardSpec("metric", {"name": None}))
    if name is not None and not _METRIC.fullmatch(name):
        raise ValueError(f"metric {name!r}: a name is ASCII letters, digits, '_', '.' and '-', no digit first")
    return _guard("metric", name=name)


@overload
def trace(name: F, /) -> F: ...
@overload
def trace(name: str | None = None, /) -> Callable[[F], F]: ...
def trace(name: Any = None, /) -> Any:
    """Run inside an OpenTelemetry span of this name; without one it is the function's. `@trace` and `@trace("…")`."""
    if _is_function(name):
        return add_guard(name, GuardSpec("trace", {"name": None}))
    if name is not None and not name.strip():
        raise ValueError("a span's name cannot be empty")
    return _guard("trace", name=name)


def _guard(kind: str, /, **facts: Any) -> Callable[[F], F]:
    def record(fn: F) -> F:
        return cast(F, add_guard(fn, GuardSpec(kind, facts)))

    return record


def _is_function(given: object) -> bool:
    """Whether a decorator stands without its parentheses: it is then given what it decorates."""
    return given is not None and not isinstance(given, str)


def _whole(option: str, value: object) -> None:
    if type(value) is not int or not 1 <= value <= _MOST_CALLS:
        raise ValueError(f"{option}={value!r}: it must be 1 or more, {_MOST_CALLS:,} at most")


def _one_of(option: str, value: object, *words: str) -> None:
    if value not in words:
        listed = ", ".join(map(repr, words[:-1]))
        raise ValueError(f"{option}={value!r}: it is {listed} or {words[-1]!r}")


def _some_time(option: str, value: DurationLike) -> int:
    ms = duration_ms(value)
    if ms <= 0:
        raise ValueError(f"{option}={value!r}: it must be some time, such as '30s'")
    return ms
