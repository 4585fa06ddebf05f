"""A fleet on Redis that was stopped for an hour: exactly these slots run, and exactly so many are missed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.schedules import outages
from tests.schedules.rig import NOON, Process
from workfleet.testing.clock import TestClock
from workfleet.testing.contracts import Opener


@pytest_asyncio.fixture
async def process(opener: Opener) -> AsyncIterator[Process]:
    clock = TestClock(NOON)
    store = await opener("shop", clock)
    yield Process(store, clock)
    await store.close()


@pytest.mark.parametrize(
    ("missed", "slots", "count"), outages.POLICIES, ids=[str(each[0]) for each in outages.POLICIES]
)
async def test_an_hour(process: Process, missed: Any, slots: list[int], count: int) -> None:
    await outages.an_hour(process, missed, slots, count)


async def test_skip_runs_nothing_that_is_late(process: Process) -> None:
    await outages.an_hour_without_the_grace(process)


async def test_a_run_that_died_is_waited_for(process: Process) -> None:
    await outages.an_hour_with_a_run_that_died(process)


async def test_another_process_goes_on_with_the_next_slot(process: Process) -> None:
    await outages.a_takeover_in_the_middle(process, Process(process.store, process.clock))
