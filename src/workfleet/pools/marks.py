"""What the pools' decorators leave on a class and its methods. Standard library only: the child reads them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from workfleet.model.declared import marked
from workfleet.model.durations import DurationLike, SizeLike

Moment = Literal["start", "shutdown"]
Size = int | Literal["auto"]


class ProcessOptions(TypedDict, total=False):
    """What a pool may say about itself. A key left out inherits from `PoolsModule`, None switches off."""

    size: Size
    """Children in each worker process; "auto": the usable processors, divided by the number of worker processes."""
    memory: SizeLike | None
    """Per child. A call that makes its child exceed it fails with `MemoryLimitExceeded`."""
    soft_memory: SizeLike | None
    """A child above it is replaced after its call. Left out: 80 % of `memory`."""
    call_timeout: DurationLike | None
    startup_timeout: DurationLike
    graceful_timeout: DurationLike
    """What `@on_shutdown` may take."""
    max_queue: int
    """Calls that may wait for a child; one more raises `PoolBusy`."""


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
