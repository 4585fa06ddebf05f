"""What the pools' decorators leave on a class and its methods. Standard library only: the child reads them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from workfleet.model.declared import marked
from workfleet.model.durations import DurationLike, SizeLike

Moment = Literal["start", "shutdown"]
Size = int | Literal["auto"]
Isolation = Literal["process", "thread", "inline"]
Strategy = Literal["least_busy", "round_robin", "power_of_two", "consistent_hash"]
Supervision = Literal["one_for_one", "one_for_all", "rest_for_one"]


class BackoffOptions(TypedDict, total=False):
    """The growing wait between restarts of a child that completes no call."""

    initial: DurationLike
    max: DurationLike
    factor: float


class RestartOptions(TypedDict, total=False):
    """When children that died are started again."""

    enabled: bool
    max_restarts: int
    """Deaths within `window`, with no call completed in between, that the pool survives: times its size, with
    `supervision="one_for_all"` in all."""
    window: DurationLike
    delay: DurationLike
    """The least time between two starts of a child."""
    backoff: BackoffOptions


class HealthCheckOptions(TypedDict, total=False):
    """How idle children are asked whether they live. `interval=None` asks none."""

    interval: DurationLike | None
    timeout: DurationLike


class MonitoringOptions(TypedDict, total=False):
    """What is told of a pool's calls."""

    metrics: bool
    """Count and measure calls, and what children use."""
    tracing: bool
    """A span for every call."""


class ProcessOptions(TypedDict, total=False):
    """What a pool may say about itself. A key left out inherits from `PoolsModule`, None switches off."""

    size: Size
    """Children in each worker process; "auto": the usable processors, divided by the number of worker processes."""
    min_size: int
    """With `max_size`: the pool grows and shrinks between the two, by how long calls wait and how busy it is."""
    max_size: Size
    isolation: Isolation
    """What runs the calls: child processes, threads of the worker, or the worker's own event loop."""
    memory: SizeLike | None
    """Per child. A call that makes its child exceed it fails with `MemoryLimitExceeded`."""
    soft_memory: SizeLike | None
    """A child above it is replaced after its call. Left out: 80 % of `memory`."""
    address_space: SizeLike | None
    """Per child, by the system (RLIMIT_AS): an allocation beyond it raises MemoryError in the method."""
    cpu: float | None
    """Cores per child; a fraction needs a writable cgroup v2, else the pool is refused with the reason."""
    cpu_time: DurationLike | None
    """Processor time of one call; beyond it the call fails with `CpuTimeExceeded`."""
    call_timeout: DurationLike | None
    startup_timeout: DurationLike
    graceful_timeout: DurationLike
    """What `@on_shutdown` may take."""
    stuck_after: DurationLike | None
    """A child at work that makes no progress for so long is killed: of use to calls without a timeout. Progress is a
    new call, an item, a log line, progress reported, processor time, a turn of the loop of async code."""
    max_queue: int
    """Calls that may wait for a child; one more raises `PoolBusy`."""
    max_calls: int | None
    """The most calls that a child has. Its replacement starts when nine tenths are over and follows it when ready; a
    child with none left takes none, unless its replacement cannot be started."""
    max_age: DurationLike | None
    """A child is replaced after so long, or up to a tenth earlier, so that not all go at once: when a new one is ready
    and it has no call."""
    strategy: Strategy
    """Which child gets a call."""
    hash_key: str | None
    """With `strategy="consistent_hash"`: a template over a method's parameters, such as "{tenant}"; calls with one key
    go to one child."""
    supervision: Supervision
    """Which children are replaced with one that died: itself, all, or also those of later places. They end the calls
    that they run."""
    restart_policy: RestartOptions
    health_check: HealthCheckOptions
    sweep_interval: DurationLike
    """How often it is looked for children that died without telling, or are stuck."""
    monitoring: MonitoringOptions


@dataclass(frozen=True)
class ProcessMark:
    """`@process`: the pool's name and the options that were written."""

    name: str
    options: ProcessOptions


@dataclass(frozen=True)
class PublicMark:
    """`@public`: `fn` is the method as it was written, `adapter` what stands in the class where that differs."""

    fn: Callable[..., Any]
    adapter: Callable[..., Any] | None = None


@dataclass(frozen=True)
class HookMark:
    """`@on_start` or `@on_shutdown`."""

    moment: Moment


@dataclass(frozen=True)
class HealthMark:
    """`@health_check`."""


def public_methods(worker: type[Any]) -> dict[str, PublicMark]:
    """The methods that may be called from outside, inherited ones included, by name."""
    found: dict[str, PublicMark] = {}
    for name in dir(worker):
        mark = marked(getattr(worker, name, None), PublicMark)
        if mark is not None:
            found[name] = mark
    return found


def written(method: Any) -> Any:
    """The function that the child runs: a plain `def` below `@public` as it was written, anything else as it is."""
    mark = marked(method, PublicMark)
    return mark.fn if mark is not None and mark.adapter is method else method
