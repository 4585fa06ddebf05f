"""A whole worker in the test's own process: settings from what the test says, a real store, real services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

from workfleet.app.app import App
from workfleet.app.builtins import Basis
from workfleet.app.client import Client
from workfleet.app.composition import Composition, compose
from workfleet.app.runtime import Runtime
from workfleet.app.runtime_options import RuntimeOptions
from workfleet.bus import Bus
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError
from workfleet.events import Event, WorkerStopped
from workfleet.model.jobs import JobRecord
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store

E = TypeVar("E", bound=Event)
T = TypeVar("T")
_STOP_MS = 5_000


class Worker:
    """`async with Worker(app, heartbeat_enabled=False) as worker:` a worker that runs. What is given stands for the
    command line. `close_ms` is the budget of its stop."""

    def __init__(
        self, app: App, *, name: str = "w1", queues: tuple[str, ...] | None = None, locator: str | None = None,
        stop_ms: int = _STOP_MS, **said: Any,
    ) -> None:  # fmt: skip
        self.events: list[Event] = []
        config = {"store": "memory://", **said}
        self.composition = compose(app, cli=config)
        bus = Bus()
        bus.subscribe(self.events.append)
        self._stop_ms = stop_ms
        basis = Basis(self.composition, SystemClock(), bus, name, open_store)
        options = RuntimeOptions(worker=name, queues=queues, locator=locator, config=config)
        self.runtime = Runtime(basis, options)
        self.stopped: WorkerStopped | None = None

    async def __aenter__(self) -> Self:
        await self.runtime.start()
        self.client = await self.get(Client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped = await self.runtime.stop(self._stop_ms)

    @property
    def store(self) -> Store:
        return self.runtime.store

    async def get(self, kind: type[T]) -> T:
        """An object of the graph."""
        found: T = await self.runtime.container.get(kind)
        return found

    async def jobs(self, **query: Any) -> list[JobRecord]:
        """Jobs, oldest first."""
        return (await self.store.jobs.find(JobQuery(limit=10_000, **query)))[::-1]

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


async def until(condition: Callable[[], object], patience_s: float = 15.0) -> None:
    """Wait until something is true; fail the test when it does not become so."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen"
        await asyncio.sleep(0.002)


def problems(app: App, **said: Any) -> dict[str, str]:
    """What is wrong with an application before it starts, by name."""
    with pytest.raises(ConfigError) as caught:
        composed(app, **said)
    return {problem.name: problem.message for problem in caught.value.problems}


async def start_problems(app: App, **said: Any) -> dict[str, str]:
    """What is wrong with an application when it starts, by name."""
    worker = Worker(app, **said)
    with pytest.raises(ConfigError) as caught:
        await worker.runtime.start()
    return {problem.name: problem.message for problem in caught.value.problems}


def composed(app: App, **said: Any) -> Composition:
    return compose(app, cli={"store": "memory://", **said})


def write(folder: Path, files: dict[str, str]) -> None:
    """Python files by their path in a folder, without the suffix."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
