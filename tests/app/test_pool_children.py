"""What the fleet's records and the metrics say of a pool's children, from what the pool says of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workfleet.app.pool_metrics import pool_metrics
from workfleet.app.pool_orders import reports_of
from workfleet.clock import SystemClock
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.pools.options import PoolOptions
from workfleet.pools.stats import ChildStats, LastExit, PoolStats
from workfleet.settings.sections import MetricsSettings


class Pools:
    """One pool with these children."""

    def __init__(self, *children: ChildStats) -> None:
        self._stats = PoolStats(
            name="images", state="running", size=1, ready=1, busy=0, queued=0, calls=0, failures=0, restarts=0,
            pids=(), children=children,
        )  # fmt: skip

    def stats(self) -> dict[str, PoolStats]:
        return {"images": self._stats}

    def get(self, name: str) -> Any:
        return SimpleNamespace(options=PoolOptions(name=name, size=1), tally=None)


def child(slot: int | None, **said: Any) -> ChildStats:
    facts = {"pid": 5, "state": "ready", "calls": 6, "method": None, "started_ms": 1, "age_ms": 7}
    return ChildStats(slot=slot, **{**facts, **said})


def test_a_spare_has_no_place_and_comes_last() -> None:
    pools = Pools(child(None, state="spare"), child(1), child(0))
    (report,) = reports_of(pools)  # type: ignore[arg-type]
    assert [each.slot for each in report.children] == [0, 1, None]


def test_the_memory_of_a_place_is_not_that_of_a_spare() -> None:
    registry = MetricsRegistry()
    pools = Pools(child(0, memory_bytes=80), child(None, state="spare", memory_bytes=20))
    pool_metrics(registry, pools, MetricsSettings(), SystemClock(), index=0).measure()  # type: ignore[arg-type]
    found = [each for each in registry.snapshot() if each.name == "workfleet_pool_child_resident_memory_bytes"]
    assert [(dict(each.labels)["place"], each.value) for each in found] == [("0", 80)]


@pytest.mark.parametrize(
    ("how", "why", "told"),
    [
        ("signal SIGKILL", "it was too large", "signal SIGKILL: it was too large"),
        ("exit code 3", "exit code 3", "exit code 3"),
        ("exit code 1", "could not be built: KeyError('x') (exit code 1 while building)", None),
        ("exit code 0", "", "exit code 0"),
    ],
)
def test_how_a_child_ended_is_said_once(how: str, why: str, told: str | None) -> None:
    exit_ = LastExit(pid=4, how=how, why=why, at_ms=1, peak_bytes=None)
    (report,) = reports_of(Pools(child(0, last_exit=exit_)))  # type: ignore[arg-type]
    assert report.children[0].last_exit == (told or why)
