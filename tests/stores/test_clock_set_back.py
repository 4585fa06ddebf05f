"""A clock that is set back: what was started in what is now the future is in no window that ends now."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord
from workfleet.model.limits import QueueLimits, Rate
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.stores.open import open_store

YEAR_MS = 365 * 86_400_000


class Settable(SystemClock):
    wall_ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.wall_ms


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_rate_goes_on(tmp_path: Path, kind: str) -> None:
    clock = Settable()
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    store = await open_store(url, app="shop", clock=clock, create=True)
    await store.queues.set_limits({"q": QueueLimits(rate=Rate(2, 1_000))})
    clock.wall_ms += YEAR_MS  # wrong from here on
    await store.jobs.enqueue([JobRecord(id=f"j{n}", queue="q", name="work") for n in range(2)])
    assert len(await store.jobs.claim(ClaimRequest("w", "t1", 1_000, (Want("q", 5),)))) == 2
    clock.wall_ms -= YEAR_MS  # and right again
    await store.jobs.enqueue([JobRecord(id=f"k{n}", queue="q", name="work") for n in range(3)])
    assert len(await store.jobs.claim(ClaimRequest("w", "t2", 1_000, (Want("q", 5),)))) == 2
    assert await store.jobs.claim(ClaimRequest("w", "t3", 1_000, (Want("q", 5),))) == []
    assert await store.jobs.next_due_ms(["q"]) == clock.wall_ms + 1_000
    clock.wall_ms += 1_000
    assert len(await store.jobs.claim(ClaimRequest("w", "t4", 1_000, (Want("q", 5),)))) == 1
    await store.close()
