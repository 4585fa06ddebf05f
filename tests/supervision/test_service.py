"""Groups of services: restarts, stops in reverse, and who refuses."""

from __future__ import annotations

import asyncio

import pytest

from tests.supervision.fakes import Published, SteppingClock, until
from tests.supervision.stress import stress
from workfleet.clock import SystemClock
from workfleet.events import ServiceRestarted
from workfleet.supervision.intensity import FailureIntensity, RestartPolicy
from workfleet.supervision.service import Service, ServiceGroup


class Recorded:
    """Runs until it is cancelled, and tells what happens to it."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    async def serve(self) -> None:
        self.told.append(f"+{self.name}")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.told.append(f"-{self.name}")


class Slow(Recorded):
    """Needs a tenth of a second to stop."""

    async def serve(self) -> None:
        self.told.append(f"+{self.name}")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            self.told.append(f"-{self.name}")


class Deaf(Recorded):
    """Does not stop when it is cancelled, until it is let go. (A second time ends it, or a failing test would hang.)"""

    def __init__(self, name: str, told: list[str]) -> None:
        super().__init__(name, told)
        self.let_go = asyncio.Event()

    async def serve(self) -> None:
        self.told.append(f"+{self.name}")
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.told.append(f"?{self.name}")
            await self.let_go.wait()


class Failing:
    """Raises `times` times, then is done."""

    name = "failing"

    def __init__(self, times: int, error: BaseException) -> None:
        self.left, self.error = times, error

    async def serve(self) -> None:
        await asyncio.sleep(0)
        if self.left:
            self.left -= 1
            raise self.error


def group(*services: Service, published: Published | None = None, name: str = "group") -> ServiceGroup:
    return ServiceGroup(name, services, clock=SystemClock(), publish=(published or Published()).append)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def deaf(told: list[str]) -> Deaf:
    return Deaf("deaf", told)


async def test_services_stop_in_reverse_order_each_after_the_later_ones(told: list[str]) -> None:
    both = group(Recorded("a", told), Recorded("b", told), Recorded("c", told))
    serving = asyncio.create_task(both.serve())
    await until(lambda: len(told) == 3)
    assert await both.stop(1_000) == ()
    assert told == ["+a", "+b", "+c", "-c", "-b", "-a"]
    await asyncio.wait_for(serving, 1)


async def test_who_refuses_is_named_and_does_not_use_up_the_others_time(told: list[str], deaf: Deaf) -> None:
    mixed = group(Slow("a", told), deaf, Recorded("c", told))
    serving = asyncio.create_task(mixed.serve())
    await until(lambda: len(told) == 3)
    assert await mixed.stop(1_000) == ("deaf",)
    assert told == ["+a", "+deaf", "+c", "-c", "?deaf", "-a"]
    assert not serving.done()
    deaf.let_go.set()
    await asyncio.wait_for(serving, 1)


async def test_a_refusal_inside_a_nested_group_is_named_with_its_path(told: list[str], deaf: Deaf) -> None:
    outer = group(Recorded("a", told), group(deaf, Recorded("c", told), name="inner"))
    serving = asyncio.create_task(outer.serve())
    await until(lambda: len(told) == 3)
    assert await outer.stop(300) == ("inner/deaf",)
    assert told == ["+a", "+deaf", "+c", "-c", "?deaf", "-a"]
    deaf.let_go.set()
    await asyncio.wait_for(serving, 1)


@pytest.mark.parametrize("error", [ValueError("broken"), asyncio.CancelledError("of something inside")])
async def test_a_service_that_fails_is_started_again_slower_each_time(error: BaseException) -> None:
    published, clock = Published(), SteppingClock()
    failing = Failing(4, error)
    services = ServiceGroup("g", [failing], clock=clock, publish=published.append)
    await asyncio.wait_for(services.serve(), 1)
    restarts = published.of(ServiceRestarted)
    assert [event.error for event in restarts] == [f"{type(error).__name__}: {error}"] * 4
    assert [event.delay_ms for event in restarts] == [100, 200, 398, 789]  # doubling, less what has decayed meanwhile
    assert clock.slept == [0.1, 0.2, 0.398, 0.789]


async def test_a_service_that_fails_while_it_is_stopped_is_not_started_again() -> None:
    started, published = 0, Published()

    class Sore:
        name = "sore"

        async def serve(self) -> None:
            nonlocal started
            started += 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise RuntimeError("could not close") from None

    sore = group(Sore(), published=published)
    serving = asyncio.create_task(sore.serve())
    await until(lambda: started)
    assert await sore.stop(1_000) == ()
    await asyncio.wait_for(serving, 1)
    assert (started, published) == (1, [])


async def test_a_cancelled_group_stops_its_services(told: list[str]) -> None:
    outer = asyncio.create_task(group(Recorded("a", told), Recorded("b", told)).serve())
    await until(lambda: len(told) == 2)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert told == ["+a", "+b", "-b", "-a"]


async def test_a_group_bears_the_stress_of_a_service(told: list[str]) -> None:
    await stress(group(Recorded("a", told), group(Recorded("b", told), name="inner")))
    assert told.count("+a") == told.count("-a") > 10
    assert told.count("+b") == told.count("-b") > 9


async def test_a_group_without_services_is_done() -> None:
    await asyncio.wait_for(group().serve(), 1)


def test_the_intensity_of_failures_decays_by_half() -> None:
    failures = FailureIntensity(RestartPolicy(half_life_ms=60_000, first_ms=100, cap_ms=30_000, limit=5))
    assert [failures.failed(0.0) for _ in range(4)] == [100, 200, 400, 800]
    assert not failures.in_loop(0.0)
    assert failures.failed(0.0) == 1_600
    assert failures.in_loop(0.0)
    assert failures.level(60.0) == 2.5
    assert not failures.in_loop(60.0)
    assert [failures.failed(60.0) for _ in range(1_000)][-1] == 30_000


def test_a_failure_can_weigh_less() -> None:
    failures = FailureIntensity(RestartPolicy())
    assert {failures.failed(0.0, weight=0.25) for _ in range(4)} == {100}
    assert failures.level(0.0) == 1.0
