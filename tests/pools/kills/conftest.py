"""Wards: pools of two children for one test each. When they are stopped, nothing of them is left in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.pools.conftest import MakePool
from tests.pools.kills import inventory
from tests.pools.kills.victims import Victim
from tests.pools.kills.ward import OpenWard, Ward, settled
from workfleet.model.policy import Backoff
from workfleet.pools.options import ChildSpec, RestartPolicy

AT_ONCE = RestartPolicy(delay_ms=0, backoff=Backoff("fixed", 10, 10, "none"))


@pytest.fixture
async def open_ward(make_pool: MakePool) -> AsyncIterator[OpenWard]:
    """`await open_ward(spec, **options)`: a pool at full size, by default two victims."""
    foreign = inventory.descendants()
    before = inventory.taken(foreign)
    opened: list[Ward] = []

    async def make(spec: ChildSpec | None = None, *, size: int = 2, **options: Any) -> Ward:
        ward = Ward(make_pool(spec or ChildSpec.of(Victim), size=size, **{"restart": AT_ONCE, **options}))
        opened.append(ward)
        await ward.open()
        return ward

    yield make
    for ward in opened:
        await ward.pool.stop(5_000)
    await settled(before, foreign)
