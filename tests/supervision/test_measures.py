"""What a supervisor tells of its workers and of itself: nothing that it counts is lost with a worker, and nobody who is
silent is shown as well."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.observe.manual_clock import ManualClock
from workfleet.app.supervisor.measures import Measures
from workfleet.app.supervisor.options import SupervisorOptions
from workfleet.app.supervisor.run import Run
from workfleet.events import ServiceRestarted, WorkerDied
from workfleet.ports.metrics import Sample
from workfleet.supervision.control import Counted, Hello, MetricsOrder

HOST = socket.gethostname()
DEATHS, BLOCKED = "workfleet_worker_deaths_total", "workfleet_worker_loop_blocked_seconds"
WRITTEN = "workfleet_metrics_file_timestamp_seconds"
GAUGE = Sample(name="workfleet_workers", kind="gauge", labels=(), value=1)


def jobs(count: int) -> Sample:
    return Sample(name="workfleet_jobs_total", kind="counter", labels=(), value=count)


class FakeWorker:
    """What `Measures` knows of a worker process."""

    def __init__(self, house: House, index: int, life: int) -> None:
        self._house, self.id, self.index = house, f"w{index}.{life}", index
        self.ready, self.over, self.child = True, asyncio.Event(), Child()
        self.measured: list[Sample] | None = None
        self.measured_at, self.still_s, self.kept = 0.0, 0.0, 0
        self.sent: list[Counted] = []
        self.unheard = 0
        """What it has said of what it has kept, and nobody has read yet."""

    def send(self, message: Counted) -> None:
        self.sent.append(message)

    def hear_out(self) -> None:
        self.kept = max(self.kept, self.unheard)

    def tell(self, *samples: Sample) -> None:
        self.measured, self.measured_at = list(samples), self._house.clock.monotonic()

    def counted(self, name: str) -> list[float]:
        """What it was given of a metric."""
        return [row.value for each in self.sent for row in each.rows if row.name == name]


class Child:
    def __init__(self) -> None:
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class House:
    def __init__(self, **order: Any) -> None:
        self.clock = ManualClock()
        self.run = Run(SupervisorOptions(app="shop"), self.clock, print)
        self.measures = Measures(self.run, self.clock, lambda event: None)
        self.order = MetricsOrder(**{"interval_ms": 10_000, **order})
        self._lives = 0

    def greet(self) -> None:
        self.run.greeted(
            Hello(
                worker_id="w", pid=1, app="shop", store="s", lease_ms=1, max_crashes=1, stuck_after_ms=1,
                shutdown_timeout_ms=1, status_file=None, metrics=self.order,
            )
        )  # fmt: skip

    def start(self, index: int = 0) -> Any:
        """A worker that is ready."""
        self._lives += 1
        self.greet()
        self.run.workers[index] = worker = FakeWorker(self, index, self._lives)  # type: ignore[assignment]
        self.run.ready()
        return worker

    def die(self, worker: Any) -> None:
        worker.child.exited.set_result(-9)
        self.measures.publish(WorkerDied(pid=1, how="was killed"))
        del self.run.workers[worker.index]

    def shown(self) -> dict[str, float]:
        return {each.name: each.value for each in self.measures.samples()}

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            await self.clock.somebody_sleeps()
            self.clock.pass_time(1)
        await self.clock.somebody_sleeps()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.measures.serve())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


# What only the supervisor counts


async def test_deaths_are_told_though_no_worker_lives_long_enough_to_tell_of_them() -> None:
    house = House()
    async with house.serving():
        for number in range(20):
            worker = house.start()
            assert worker.sent, "it is given at once what was counted, and does not say that it keeps it"
            await house.seconds(2)
            house.die(worker)
            assert house.shown()[DEATHS] == number + 1
        house.start()
        await house.seconds(2)
        assert house.shown()[DEATHS] == 20


async def test_nobody_has_died_is_told_too() -> None:
    house = House()
    assert house.shown() == {}, "whether anything is measured is not known"
    house.greet()
    assert house.shown() == {DEATHS: 0}


async def test_nothing_is_told_where_nothing_is_measured() -> None:
    house = House()
    house.order = None  # type: ignore[assignment]
    house.die(house.start())
    async with house.serving():
        house.die(house.start())
    assert house.shown() == {}


async def test_what_is_counted_here_and_by_a_worker_is_added_up() -> None:
    house = House()
    restarts = Sample(name="workfleet_service_restarts_total", kind="counter", labels=(("service", "keeper"),), value=2)
    house.start().tell(restarts, jobs(3))
    house.measures.publish(ServiceRestarted(service="keeper", error="no", delay_ms=1))
    assert house.shown() == {DEATHS: 0, BLOCKED: 0, "workfleet_jobs_total": 3, "workfleet_service_restarts_total": 3}


async def test_who_keeps_what_was_counted_says_so_and_then_it_is_given_to_nobody_else() -> None:
    house = House()
    async with house.serving():
        first = house.start()
        await house.seconds(1)
        house.measures.publish(WorkerDied(pid=1, how="was killed"))
        assert first.counted(DEATHS) == [0, 1], "at once"
        first.kept = 1
        house.die(first)
        second = house.start()
        assert second.counted(DEATHS) == [1, 1]
        second.unheard = second.sent[-1].number
        house.die(second)
        third = house.start()
        assert third.counted(DEATHS) == [1], "the last words of the second count"
        await house.seconds(5)
        assert third.counted(DEATHS) == [1]


async def test_what_nobody_keeps_takes_bounded_memory_and_is_not_lost() -> None:
    house = House()
    house.greet()
    async with house.serving():
        for _ in range(1_000):
            house.measures.publish(WorkerDied(pid=1, how="was killed"))
        worker = house.start()
        await house.seconds(1)
        assert len(worker.sent) <= 100
        worker.kept = worker.sent[-1].number
        await house.seconds(2)
    assert sum(worker.counted(DEATHS)) == 1_000


# The file


async def test_the_file_of_a_fleet_that_gives_up_has_the_last_death_and_grows_old(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    house = House(textfile=str(path))
    house.greet()  # nobody was ever ready
    async with house.serving():
        await house.seconds(1)
        for _ in range(3):
            house.measures.publish(WorkerDied(pid=1, how="exited"))
        house.run.refuse(1, "")
    assert f"{DEATHS} 3\n" in path.read_text()
    assert f'{WRITTEN}{{host="{HOST}"}} 1800000001\n' in path.read_text()


@pytest.mark.parametrize("stop", ["stop", "kill"])
async def test_the_file_of_a_fleet_that_was_stopped_has_no_age(tmp_path: Path, stop: str) -> None:
    path = tmp_path / "metrics.prom"
    house = House(textfile=str(path))
    house.greet()
    async with house.serving():
        await house.seconds(10)
        assert f'{WRITTEN}{{host="{HOST}"}} 1800000010\n' in path.read_text()
        if stop == "kill":
            house.run.kill()
        else:
            house.run.stop("stopped by SIGTERM")
    assert f"{DEATHS} 0\n" in path.read_text()
    assert WRITTEN not in path.read_text()


# Who is silent


async def test_gauges_of_a_silent_worker_go_after_two_intervals_and_come_back() -> None:
    house = House()
    worker = house.start()
    worker.tell(GAUGE, jobs(3))
    house.clock.pass_time(19.9)
    assert GAUGE.name in house.shown()
    house.clock.pass_time(0.1)
    assert house.shown() == {DEATHS: 0, BLOCKED: 0, "workfleet_jobs_total": 3}
    worker.tell(GAUGE, jobs(4))
    assert house.shown() == {DEATHS: 0, BLOCKED: 0, "workfleet_jobs_total": 4, GAUGE.name: 1}


async def test_a_short_interval_takes_nobody_for_silent_who_is_only_late() -> None:
    house = House(interval_ms=500)
    house.start().tell(GAUGE)
    house.clock.pass_time(4.9)
    assert GAUGE.name in house.shown()
    house.clock.pass_time(0.1)
    assert GAUGE.name not in house.shown()


def loops(house: House) -> dict[str, float]:
    return {
        dict(each.labels)["worker"]: each.value
        for each in house.measures.samples()
        if each.name == BLOCKED and dict(each.labels)["host"] == HOST
    }


async def test_a_loop_that_stands_still_is_told_for_how_long() -> None:
    house = House()
    one, two = house.start(0), house.start(1)
    one.still_s, two.still_s = 0.9, 4.9
    assert loops(house) == {"0": 0, "1": 0}
    two.still_s = 5.5
    assert loops(house) == {"0": 0, "1": 5.5}
    two.still_s = 0.2
    assert loops(house) == {"0": 0, "1": 0}
    one.ready = False
    house.die(two)
    assert loops(house) == {}, "who does not work, or no more, has none"


async def test_of_loops_that_go_on_no_rows_are_kept() -> None:
    house = House()
    async with house.serving():
        worker = house.start()
        await house.seconds(60)
        assert worker.counted(BLOCKED) == [0]
        worker.still_s = 31
        await house.seconds(30)
        worker.still_s = 0
        await house.seconds(30)
    assert worker.counted(BLOCKED) == [0, 31, 0]
