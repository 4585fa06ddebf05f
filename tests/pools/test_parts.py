"""Each option of a pool reaches the part of it that acts by it, with its value. What the parts do is in their tests."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import wait_until
from tests.pools.workers import Basic
from workfleet.clock import SystemClock
from workfleet.pools import pool as wiring
from workfleet.pools.marks import Strategy
from workfleet.pools.member import Member
from workfleet.pools.options import ChildSpec, PoolOptions

BASIC = ChildSpec.of(Basic)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, ...]]:
    """What each part was made of, by its name."""
    given: dict[str, tuple[Any, ...]] = {}

    def noted(name: str) -> None:
        part = getattr(wiring, name)

        def make(*arguments: Any) -> Any:
            given[name] = arguments
            return part(*arguments)

        monkeypatch.setattr(wiring, name, make)

    for name in ("Desk", "Autoscaler", "HealthCheck", "Sweep", "StuckWatch"):
        noted(name)
    return given


def made_of(**options: Any) -> None:
    wiring.ProcessPool(BASIC, PoolOptions(name="p", size=3, **options), clock=SystemClock(), publish=lambda _: None)


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_the_strategy_and_the_limit_of_waiting_calls(given: dict[str, tuple[Any, ...]], strategy: Strategy) -> None:
    key = "id" if strategy == "consistent_hash" else None
    made_of(strategy=strategy, hash_key=key, queue_limit=7)
    assert given["Desk"][1:3] == (7, strategy)


def test_the_bounds_of_scaling(given: dict[str, tuple[Any, ...]]) -> None:
    made_of(min_size=2, max_size=5)
    assert given["Autoscaler"][:2] == (2, 5)


def test_the_intervals_of_what_looks_after_children(given: dict[str, tuple[Any, ...]]) -> None:
    made_of(health_interval_ms=6_000, sweep_interval_ms=7_000, stuck_after_ms=8_000)
    assert {name: made[0] for name, made in given.items() if name != "Desk"} == {
        "HealthCheck": 6_000, "Sweep": 7_000, "StuckWatch": 8_000,
    }  # fmt: skip


def test_what_is_off_is_not_there(given: dict[str, tuple[Any, ...]]) -> None:
    made_of(health_interval_ms=None, sweep_interval_ms=None, stuck_after_ms=None)
    assert given.keys() == {"Desk"}


@pytest.mark.parametrize(("max_age_ms", "ages"), [(10_000, [9_000]), (None, [])])
async def test_the_age_of_children(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch, max_age_ms: int | None, ages: list[float]
) -> None:
    told: list[float] = []
    monkeypatch.setattr(Member, "age", lambda _, ms: told.append(ms))
    made = make_pool(BASIC, max_age_ms=max_age_ms)
    await wait_until(lambda: made.pool.stats().ready == 1)
    assert told == ages  # a tenth is drawn, and the tests' pools draw all of it
