"""What tells one worker from the others, for its `Runtime`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from dishka import AsyncContainer, Provider

from workfleet.model.fleet import Instruction, PoolReport
from workfleet.observe.metrics.handed import Handed
from workfleet.settings.sections import LogSettings
from workfleet.supervision.service import Service

from .compile import Invoke
from .metrics import Tell
from .registry import Code

if TYPE_CHECKING:
    from .runtime import Runtime


class PoolSource(Protocol):
    """Gives the graph its pools, and handlers their place in one."""

    def providers(self) -> Sequence[Provider]: ...
    async def start(self, container: AsyncContainer) -> None: ...
    async def invocation(self, code: Code, pool: Any) -> Invoke: ...
    def states(self) -> Sequence[PoolReport]:
        """The pools that were started, as they are now."""
        ...


@dataclass(frozen=True)
class RuntimeOptions:
    """What tells one worker from the others."""

    worker: str
    announce: bool = True
    """Whether it speaks for its process group in the start log."""
    queues: tuple[str, ...] | None = None
    index: int = 0
    processes: int = 1
    """How many workers share this machine with it: "auto" pools are divided by it."""
    locator: str | None = None
    """Where pool children find the application; None: it cannot be imported."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What the command line says, for them too."""
    pooling: PoolSource | None = None
    """Where pools come from; None: child processes."""
    driven: bool = False
    """A test moves the clock and says when jobs are claimed: nothing else runs by itself."""
    draw: Callable[[], float] = random.random
    """The random number of a backoff's jitter."""
    configure_logs: Callable[[LogSettings], None] = field(default=lambda _settings: None)
    tell_metrics: Tell | None = None
    """Hears what this process has measured; None: nobody adds up several processes."""
    handed: Handed | None = None
    """What another process has counted and this one keeps; None: there is no other."""
    extra_services: Callable[[Runtime], list[Service]] = field(default=lambda _runtime: [])
    on_instruction: Callable[[Instruction | None], None] = field(default=lambda _instruction: None)
    """Hears what an operator says. To "stop" and "recycle" it answers with `Runtime.stop`; the rest is done already."""
