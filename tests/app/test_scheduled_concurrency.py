"""How many scheduled runs go on at once, in a process and in the fleet, and what becomes of those beyond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.app.working import Worker
from workfleet import App, Job, SchedulerModule
from workfleet.model.limits import QueueLimits
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.clock import Clock
from workfleet.testing import Fleet

NAMES = [f"s{number}" for number in range(5)]


def busy(*modules: Any, **options: Any) -> tuple[App, list[int]]:
    """An application of five schedules that take 10 s each, and how many of them ran whenever one began."""
    app, running, most = App("shop", modules=modules), list[str](), list[int]()
    for name in NAMES:

        @app.schedule(name, **options)
        async def work(job: Job[None], clock: Clock) -> None:
            running.append(job.name)
            most.append(len(running))
            await clock.sleep(10)
            running.remove(job.name)

    return app, most


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_concurrent": 2}, 2),
        ({"fleet_max_concurrent": 3}, 3),
        ({"max_concurrent": 2, "fleet_max_concurrent": 3}, 2),
        ({"max_concurrent": 3, "fleet_max_concurrent": 1}, 1),
        ({"fleet_max_concurrent": None}, 5),
    ],
    ids=str,
)
async def test_runs_beyond_the_limit_wait_and_none_is_lost(options: Any, expected: int) -> None:
    app, most = busy(SchedulerModule(**options))
    async with Fleet(app) as fleet:
        for name in NAMES:
            assert (await fleet.schedules.trigger(name)).accepted
        await fleet.run_until_idle()
        runs = [run.outcome for name in NAMES for run in await fleet.runs(name)]
    assert runs == ["completed"] * 5
    assert max(most) == expected


async def test_a_run_that_waits_too_long_for_a_slot_is_recorded_as_expired() -> None:
    """The other way with what is beyond the limit: `expires` says how long it may wait."""
    app, most = busy(SchedulerModule(fleet_max_concurrent=1), expires="15s")
    async with Fleet(app) as fleet:
        for name in NAMES:
            await fleet.schedules.trigger(name)
        await fleet.run_until_idle()
        ended = await fleet.jobs.list(queue="shop-schedules")
        assert sorted(job.outcome or "" for job in ended) == ["completed"] * 2 + ["expired"] * 3
        assert {job.failure.message for job in ended if job.failure} == {"it was not started before it expired"}
    assert most == [1, 1]


def stored(records: list[ScheduleRecord]) -> dict[str, int | None]:
    return {record.name: record.job.expires_after_ms for record in records if record.name.startswith("s")}


async def test_the_module_says_how_long_runs_wait_and_a_schedule_otherwise() -> None:
    app = App("shop", modules=[SchedulerModule(default_job_options={"expires": "5m"})])

    @app.schedule("s-inherits", every="1h")
    async def inherits() -> None: ...

    @app.schedule("s-own", every="1h", expires="1m")
    async def own() -> None: ...

    @app.schedule("s-off", every="1h", expires=None)
    async def off() -> None: ...

    async with Worker(app, heartbeat_enabled=False) as worker:
        found = stored(await worker.store.schedules.all())
    assert found == {"s-inherits": 300_000, "s-off": None, "s-own": 60_000}


async def limits(app: App, **settings: Any) -> QueueLimits:
    async with Worker(app, heartbeat_enabled=False, **settings) as worker:
        return (await worker.store.queues.all())["shop-schedules"].limits


async def test_an_operator_sets_the_fleet_s_limit() -> None:
    app, _ = busy(SchedulerModule(fleet_max_concurrent=3))
    assert await limits(app) == QueueLimits(concurrency=3)
    assert await limits(app, scheduler={"fleet_max_concurrent": 7}) == QueueLimits(concurrency=7)
    assert await limits(app, scheduler={"fleet_max_concurrent": None}) == QueueLimits()
    by_queue = {"shop-schedules": {"fleet_concurrency": 2}}
    assert await limits(app, queue_limits=by_queue) == QueueLimits(concurrency=2)


async def test_a_changed_wait_reaches_the_store(tmp_path: Path) -> None:
    """What is stored is compared by its fingerprint, so that has to have it."""
    for expires, waits_ms in (("5m", 300_000), ("6m", 360_000), (None, None)):
        app, _ = busy(every="1d", expires=expires)
        async with Worker(app, heartbeat_enabled=False, store=f"sqlite://{tmp_path}/s.db") as worker:
            assert set(stored(await worker.store.schedules.all()).values()) == {waits_ms}
