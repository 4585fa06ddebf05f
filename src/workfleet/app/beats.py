"""The worker's beats to its supervisor: once a second, how it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs, to_builtins

from workfleet.model.fleet import PoolReport
from workfleet.supervision.control import Beat
from workfleet.supervision.lifeline import restart_calls_when_shown

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
            restart_calls_when_shown()  # its stack may have been looked at while it was blocked
            await self._runtime.clock.sleep(_EVERY_S)

    def beat(self) -> Beat:
        """The worker as it is now."""
        runtime = self._runtime
        totals, probe = runtime.exchange.totals, runtime.probe
        pools, report = runtime.pooling.states(), runtime.readiness.report
        return Beat(
            active=runtime.exchange.active,
            completed=totals["completed"],
            failed=totals["failed"],
            loop_lag_ms=round(runtime.sampler.max_ms),
            store_ok_ms=probe.ok_at_ms,
            store_error=probe.error,
            unready=runtime.readiness.unready,
            pools={pool.name: _whole(pool) for pool in pools},
            details={} if report is None else {"health": to_builtins(report)},
        )


def _whole(pool: PoolReport) -> dict[str, Any]:
    """With what is as usual, too: whoever reads it need not know what that is."""
    return {**structs.asdict(pool), "children": [structs.asdict(child) for child in pool.children]}
