"""The worker's beats to its supervisor: once a second, how it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workfleet.supervision.control import Beat

if TYPE_CHECKING:
    from .runtime import Runtime

_EVERY_S = 1.0


class Beats:
    """A Service."""

    name = "beats"

    def __init__(self, runtime: Runtime, send: Callable[[Beat], None]) -> None:
        self._runtime, self._send = runtime, send

    async def serve(self) -> None:
        while True:
            self._send(self.beat())
            await self._runtime.clock.sleep(_EVERY_S)

    def beat(self) -> Beat:
        """The worker as it is now."""
        runtime = self._runtime
        totals, probe = runtime.exchange.totals, runtime.probe
        pools = runtime.pool_states()
        return Beat(
            active=runtime.exchange.active,
            completed=totals["completed"],
            failed=totals["failed"],
            loop_lag_ms=round(runtime.sampler.max_ms),
            store_ok_ms=probe.ok_at_ms,
            store_error=probe.error,
            unready=tuple(f"pool {name} has failed" for name, state in pools.items() if state["state"] == "failed"),
            pools=pools,
        )
