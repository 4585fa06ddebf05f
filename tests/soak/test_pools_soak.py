"""A short soak of pools with real children, and that the soak sees what it is there for."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.pools.kills import inventory
from tests.pools.kills.inventory import Inventory
from tests.soak.pool_walk import Tally, Walk
from tests.soak.pools import soak, table
from workfleet.pools.pool import ProcessPool


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
async def test_five_seconds_of_everything(seed: int) -> None:
    tally = await soak(5.0, seed)
    assert tally.problems == [], table(tally)
    assert tally.lives >= 1
    for end in ("a value", "ChildDied", "CallTimeout", "cancelled"):
        assert tally.ends[end] > 0, table(tally)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["a wrong value", "an error", "a descriptor"])
async def test_a_broken_promise_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    call, taken = ProcessPool.call, inventory.taken
    takes: list[Inventory] = []

    async def broken(self: ProcessPool, method: str, args: Any = (), kwargs: Any = None, **more: Any) -> Any:
        answer = await call(self, method, args, kwargs, **more)
        if method == "once" and fault == "a wrong value":
            return answer + 1
        if method == "once" and fault == "an error":
            raise ValueError("out of nowhere")
        return answer

    def one_more() -> Inventory:
        takes.append(taken())
        leaked = {**takes[-1].descriptors, "leaked": len(takes)}
        return takes[-1]._replace(descriptors=leaked if fault == "a descriptor" else takes[-1].descriptors)

    monkeypatch.setattr(ProcessPool, "call", broken)
    monkeypatch.setattr(inventory, "taken", one_more)
    monkeypatch.setattr("tests.soak.pool_walk._PATIENCE_S", 5.0 if fault == "a descriptor" else 60.0)
    tally = Tally()
    walk = Walk(tmp_path, Random(1), tally)
    await walk.live(1.0, drain=False)
    said = {"a wrong value": "is not", "an error": "out of nowhere", "a descriptor": "left behind"}[fault]
    assert any(said in problem for problem in tally.problems), tally
