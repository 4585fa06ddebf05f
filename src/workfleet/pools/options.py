"""What a pool is told: what its children are, how many, within which limits, and what follows when they die."""

from __future__ import annotations

import sys
from typing import Any, Self

from msgspec import Struct

from workfleet.errors import ConfigError, Problem
from workfleet.model.policy import Backoff
from workfleet.pools.marks import Isolation, Strategy, Supervision


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

    A child that died is replaced no sooner than `delay_ms` after it was started; when the next one of its place dies
    before any call was completed there, its replacement waits by `backoff` too. After more than `max_restarts` × size
    deaths within `window_ms`, and no completed call of the pool in between, the pool has failed; with one_for_all,
    where each death replaces all children, `max_restarts` is not multiplied. Without restarts it shrinks.
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
    """How many children it has at its start."""
    min_size: int | None = None
    """With `max_size`: the bounds between which it scales itself; None for both: it does not."""
    max_size: int | None = None
    isolation: Isolation = "process"
    memory_bytes: int | None = None
    """A child above it is killed; the call that it runs fails with `MemoryLimitExceeded`."""
    soft_memory_bytes: int | None = None
    """A child above it is replaced after its call. Left out: 80 % of `memory_bytes`."""
    address_space_bytes: int | None = None
    cpu_cores: float | None = None
    cpu_time_ms: int | None = None
    """Processor time of one call."""
    call_timeout_ms: int | None = 60_000
    """Of a method's run, waiting not included; of a stream: between two items that the consumer has room for."""
    startup_timeout_ms: int = 30_000
    graceful_timeout_ms: int = 30_000
    """What a child's shutdown hooks may take."""
    stuck_after_ms: int | None = 600_000
    """How long a child at work may make no progress."""
    queue_limit: int = 1_000
    """Calls that may wait for a child; one more raises `PoolBusy`."""
    max_calls: int | None = None
    max_age_ms: int | None = None
    strategy: Strategy = "least_busy"
    hash_key: str | None = None
    supervision: Supervision = "one_for_one"
    health_interval_ms: int | None = 5_000
    health_timeout_ms: int = 2_000
    sweep_interval_ms: int | None = 30_000
    cancel_grace_ms: int = 1_000
    """What an async method that nobody waits for any more may take to end; its child is killed after that."""
    restart: RestartPolicy = RestartPolicy()
    metrics: bool = True
    tracing: bool = False

    @property
    def soft_limit_bytes(self) -> int | None:
        if self.soft_memory_bytes is not None or self.memory_bytes is None:
            return self.soft_memory_bytes
        return self.memory_bytes * 8 // 10
