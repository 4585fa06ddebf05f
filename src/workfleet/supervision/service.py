"""Long-running loops and their supervision: a `Service` is one loop, a `ServiceGroup` keeps several running.

A group restarts what raises, slower the more often it does, and stops everything in reverse order, telling who refused.
It knows nothing of what its services do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ..events import Event, ServiceRestarted
from ..ports.clock import Clock
from .intensity import FailureIntensity, RestartPolicy


class Service(Protocol):
    """One supervised loop.

    `serve` returns when the service is done for good, raises when it failed (it is then called again on the same
    object), and ends soon after it is cancelled, leaving no task behind. It must bear being cancelled at any await.
    """

    @property
    def name(self) -> str: ...

    async def serve(self) -> None: ...


class ServiceGroup:
    """Keeps services running, started in the given order. It is a Service itself, so groups nest."""

    def __init__(
        self,
        name: str,
        services: Sequence[Service],
        *,
        clock: Clock,
        publish: Callable[[Event], None],
        policy: RestartPolicy | None = None,
        stop_timeout_ms: int = 5_000,
    ) -> None:
        """`stop_timeout_ms` bounds the stop when the group's own `serve` is cancelled."""
        self.name = name
        self._services = tuple(services)
        self._clock, self._publish = clock, publish
        self._policy = policy or RestartPolicy()
        self._stop_timeout_ms = stop_timeout_ms
        self._running: list[tuple[Service, asyncio.Task[None]]] = []

    async def serve(self) -> None:
        """Run until every service is done. Cancelled, it stops them first."""
        self._running = [(each, asyncio.create_task(self._keep(each), name=each.name)) for each in self._services]
        try:
            # wait() neither cancels the tasks when it is cancelled itself nor stops at the first that ends.
            await asyncio.wait([task for _, task in self._running] or [_done()])
        except asyncio.CancelledError:
            await self.stop(self._stop_timeout_ms)
            raise

    async def stop(self, timeout_ms: int) -> tuple[str, ...]:
        """Cancel the services in reverse order, each once the later ones have ended. Returns who refused to stop.

        One that refuses does not use up the others' time: what is left is divided among those that still run.
        """
        refused: list[str] = []
        running, self._running = self._running, []
        deadline = self._clock.monotonic() + timeout_ms / 1000
        for left, (service, task) in zip(range(len(running), 0, -1), reversed(running), strict=True):
            share = max(deadline - self._clock.monotonic(), 0) / left
            refused += await _stop(service, task, share)
        return tuple(refused)

    async def _keep(self, service: Service) -> None:
        intensity = FailureIntensity(self._policy)
        while True:
            try:
                return await service.serve()
            except (Exception, asyncio.CancelledError) as error:
                # The boundary around services: told, then started again. A cancellation that nobody asked for, of
                # something that the service awaited, is a failure like any other.
                if _stopping():
                    raise
                delay_ms = intensity.failed(self._clock.monotonic())
                said = f"{type(error).__name__}: {error}"
                self._publish(ServiceRestarted(service=service.name, error=said, delay_ms=delay_ms))
            await self._clock.sleep(delay_ms / 1000)


def _stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _stop(service: Service, task: asyncio.Task[None], seconds: float) -> list[str]:
    inner: list[str] = []
    if isinstance(service, ServiceGroup):
        inner = [f"{service.name}/{name}" for name in await service.stop(round(seconds * 1000))]
    task.cancel()
    # Even with no time left, one that ends at its next step has not refused.
    await asyncio.wait([task], timeout=max(seconds, 0.05))
    task.add_done_callback(_take_result)
    return inner if task.done() else inner or [service.name]


def _take_result(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved, so that a late end is not reported as never seen


def _done() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future
