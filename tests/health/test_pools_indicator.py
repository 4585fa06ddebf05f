"""What health says of process pools."""

from __future__ import annotations

import pytest

from workfleet.clock import SystemClock
from workfleet.health.pools import PoolsIndicator
from workfleet.health.service import Health
from workfleet.model.fleet import PoolReport

GOOD = PoolReport(name="cpu", state="running", size=2, ready=2)
STARTING = PoolReport(name="mail", state="starting", size=2)
SHORT = PoolReport(name="images", state="degraded", size=4, ready=3)
FAILED = PoolReport(name="video", state="failed", size=2, reason="7 children died and none completed a call")


@pytest.mark.parametrize(
    ("pools", "status", "reason"),
    [
        ((), "healthy", ""),
        ((GOOD, STARTING), "healthy", ""),
        ((GOOD, SHORT), "degraded", "pools: pool images has 3 of 4 children"),
        ((SHORT, FAILED, GOOD), "unhealthy",
         "pools: pool video has failed: 7 children died and none completed a call"),
    ],
)  # fmt: skip
async def test_a_failed_pool_makes_the_process_unready_and_says_why(
    pools: tuple[PoolReport, ...], status: str, reason: str
) -> None:
    health = Health([PoolsIndicator(lambda: pools)], SystemClock(), lambda event: None)
    report = await health.check()
    assert (report.status, report.reason, report.ready) == (status, reason, status != "unhealthy")
    (said,) = report.indicators
    assert said.facts == {
        "pools": len(pools), "failed": pools.count(FAILED), "degraded": pools.count(SHORT),
    }  # fmt: skip
