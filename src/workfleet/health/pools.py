"""Whether the process pools of this process work."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workfleet.model.fleet import PoolReport

from .indication import Indication


class PoolsIndicator:
    """A pool that has failed takes no calls: who needs it cannot work. One with fewer children than it should have is
    slow. `read` gives the pools that were started."""

    name = "pools"

    def __init__(self, read: Callable[[], Iterable[PoolReport]], *, critical: bool = True) -> None:
        self._read = read
        self.critical = critical

    async def check(self) -> Indication:
        pools = list(self._read())
        failed = [pool for pool in pools if pool.state == "failed"]
        short = [pool for pool in pools if pool.state == "degraded"]
        facts = {"pools": len(pools), "failed": len(failed), "degraded": len(short)}
        if failed:
            return Indication("unhealthy", facts, "; ".join(map(failure, failed)))
        if short:
            return Indication("degraded", facts, "; ".join(map(_shortage, short)))
        return Indication("healthy", facts)


def failure(pool: PoolReport) -> str:
    """A sentence about a pool that has failed."""
    return f"pool {pool.name} has failed: {pool.reason}"


def _shortage(pool: PoolReport) -> str:
    return f"pool {pool.name} has {pool.ready} of {pool.size} children"
