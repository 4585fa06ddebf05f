"""What a pool is told: what its children are, how many, within which limits, and what follows when they die."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Self

from msgspec import Struct, structs

from workfleet.errors import ConfigError, Problem
from workfleet.model.durations import duration_ms
from workfleet.model.policy import Backoff
from workfleet.pools.cpus import auto_size
from workfleet.pools.marks import ProcessOptions as ProcessOptions  # noqa: PLC0414 - re-exported
from workfleet.units import Size


class ChildSpec(Struct, frozen=True):
    """How a child gets the object that it serves.

    `factory` is "module:function"; the child imports it and calls it with `args` (anything that pickles). It may be
    async. What it returns is served; a context manager, sync or async, is entered, held for the life of the child and
    left when the child is stopped gracefully.
    """

    factory: str
    args: tuple[Any, ...] = ()

    @classmethod
    def of(cls, worker: type[Any]) -> Self:
        """The class itself, imported by its name and called without arguments. Raises `ConfigError` if it cannot be."""
        module, qualname = worker.__module__, worker.__qualname__
        if "<" in qualname:
            raise _unreachable(worker, "it is made inside a function. Define it at the top level of a module")
        if module == "__main__":
            raise _unreachable(worker, "its module is the program itself. Put it into a module that can be imported")
        found: Any = sys.modules.get(module)
        for name in qualname.split("."):
            found = getattr(found, name, None)
        if found is not worker:
            raise _unreachable(worker, f"{module}:{qualname} is something else. The name must lead to the class")
        return cls("workfleet.pools.child_target:by_name", (module, qualname))


def _unreachable(worker: type[Any], reason: str) -> ConfigError:
    name = f"{worker.__module__}.{worker.__qualname__}"
    return ConfigError(Problem(name, f"a child process cannot import this class: {reason}"))


class RestartPolicy(Struct, frozen=True):
    """What follows when a child dies unasked. Children that the pool itself ended are replaced at once, uncounted.

    A child that died is replaced no sooner than `delay_ms` after it was started; one that dies again before any call
    was completed waits by `backoff` too. After more than `max_restarts` × size such deaths within `window_ms`, and no
    completed call in between, the pool has failed. Without restarts it shrinks.
    """

    enabled: bool = True
    max_restarts: int = 3
    window_ms: int = 60_000
    delay_ms: int = 1_000
    backoff: Backoff = Backoff("exponential", 1_000, 30_000, "full")


class PoolOptions(Struct, frozen=True, kw_only=True):
    """One pool. Durations in milliseconds, sizes in bytes, None is off."""

    name: str
    size: int
    memory_bytes: int | None = None
    """A child above it is killed; the call that it runs fails with `MemoryLimitExceeded`."""
    soft_memory_bytes: int | None = None
    """A child above it is replaced after its call. Left out: 80 % of `memory_bytes`."""
    call_timeout_ms: int | None = 60_000
    """Of a method's run, waiting not included; of a stream: between two items that the consumer has room for."""
    startup_timeout_ms: int = 30_000
    graceful_timeout_ms: int = 30_000
    """What a child's shutdown hooks may take."""
    queue_limit: int = 1_000
    """Calls that may wait for a child; one more raises `PoolBusy`."""
    health_interval_ms: int | None = 5_000
    health_timeout_ms: int = 2_000
    sweep_interval_ms: int | None = 30_000
    cancel_grace_ms: int = 1_000
    """What an async method that nobody waits for any more may take to end; its child is killed after that."""
    restart: RestartPolicy = RestartPolicy()

    @property
    def soft_limit_bytes(self) -> int | None:
        if self.soft_memory_bytes is not None or self.memory_bytes is None:
            return self.soft_memory_bytes
        return self.memory_bytes * 8 // 10


def merged(defaults: PoolOptions, name: str, written: ProcessOptions, *, processes: int) -> PoolOptions:
    """The options of one pool: what was written over `defaults`. `processes` share an "auto" size.

    Raises `ConfigError` naming every option that makes no sense.
    """
    facts: dict[str, Any] = {**structs.asdict(defaults), "name": name}
    problems: list[Problem] = []
    for option, value in written.items():
        try:
            field, read = _READERS[option]
            facts[field] = read(value, processes)
        except (KeyError, TypeError, ValueError) as error:
            reason = "there is no such option" if option not in _READERS else str(error)
            problems.append(Problem(f"pool {name}: {option}", reason, repr(value)))
    if problems:
        raise ConfigError(problems)
    return PoolOptions(**facts)


def _size(value: Any, processes: int) -> int:
    if value == "auto":
        return auto_size(processes)
    return _count_from(1, value)


def _count_or_zero(value: Any, processes: int) -> int:
    return _count_from(0, value)


def _count_from(least: int, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"a whole number of at least {least} is needed")
    return value


def _bytes(value: Any, processes: int) -> int | None:
    return None if value is None else int(Size(value))


def _time(value: Any, processes: int) -> int:
    return duration_ms(value)


def _time_or_none(value: Any, processes: int) -> int | None:
    return None if value is None else duration_ms(value)


_READERS: Mapping[str, tuple[str, Callable[[Any, int], Any]]] = {
    "size": ("size", _size),
    "memory": ("memory_bytes", _bytes),
    "soft_memory": ("soft_memory_bytes", _bytes),
    "call_timeout": ("call_timeout_ms", _time_or_none),
    "startup_timeout": ("startup_timeout_ms", _time),
    "graceful_timeout": ("graceful_timeout_ms", _time),
    "max_queue": ("queue_limit", _count_or_zero),
}
