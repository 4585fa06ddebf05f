"""All indicators at once, once for all who ask, within a time; the worst critical one wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.observe.manual_clock import ManualClock
from workfleet.errors import NotFound, UsageError
from workfleet.events import Event, HealthChanged
from workfleet.health.indication import Indication, Status
from workfleet.health.service import Health


class Fake:
    """An indicator that says what it is told to, counts, and can be held up."""

    def __init__(self, name: str, status: Status = "healthy", *, critical: bool = True, reason: str = "") -> None:
        self.name, self.status, self.critical, self.reason = name, status, critical, reason
        self.asked = self.ended = 0
        self.gate: Callable[[], Awaitable[Any]] | None = None
        self.started = asyncio.Event()

    async def check(self) -> Indication:
        self.asked += 1
        self.started.set()
        try:
            if self.gate is not None:
                await self.gate()
        finally:
            self.ended += 1
        return Indication(self.status, {"asked": self.asked}, self.reason)


class House:
    def __init__(self, *indicators: Any, **options: Any) -> None:
        self.clock = ManualClock()
        self.told: list[Event] = []
        self.health = Health(indicators, self.clock, self.told.append, **options)


@asynccontextmanager
async def house(*indicators: Any, **options: Any) -> AsyncIterator[House]:
    built = House(*indicators, **options)
    yield built
    await built.health.close()


async def test_nothing_to_look_at_is_healthy() -> None:
    async with house(version="1.2") as built:
        built.clock.pass_time(3)
        report = await built.health.check()
        assert (report.status, report.reason, report.version, report.indicators) == ("healthy", "", "1.2", ())
        assert (report.uptime_ms, report.took_ms, report.checked_ms) == (3000, 0, built.clock.now_ms())
        assert (await built.health.is_ready(), await built.health.is_healthy()) == (True, True)


@pytest.mark.parametrize(
    ("critical", "other", "status", "ready"),
    [
        ("healthy", "healthy", "healthy", True),
        ("healthy", "degraded", "degraded", True),
        ("healthy", "unhealthy", "degraded", True),
        ("degraded", "healthy", "degraded", True),
        ("degraded", "unhealthy", "degraded", True),
        ("unhealthy", "healthy", "unhealthy", False),
        ("unhealthy", "degraded", "unhealthy", False),
    ],
)
async def test_the_worst_critical_one_wins(critical: Status, other: Status, status: Status, ready: bool) -> None:
    async with house(Fake("a", critical), Fake("b", other, critical=False)) as built:
        report = await built.health.check()
        assert (report.status, report.ready, await built.health.is_ready()) == (status, ready, ready)
        assert await built.health.is_healthy() is (status == "healthy")


async def test_the_report_names_the_worst_first() -> None:
    indicators = (
        Fake("memory", "degraded", reason="82%"),
        Fake("fine"),
        Fake("disk", "unhealthy", critical=False, reason="full"),
        Fake("store", "unhealthy", reason="refused"),
        Fake("mute", "degraded"),
    )
    async with house(*indicators) as built:
        report = await built.health.check()
        assert report.reason == "store: refused; memory: 82%; disk: full; mute: degraded"
        assert [(each.name, each.status, each.critical) for each in report.indicators] == [
            ("memory", "degraded", True),
            ("fine", "healthy", True),
            ("disk", "unhealthy", False),
            ("store", "unhealthy", True),
            ("mute", "degraded", True),
        ]
        assert report.indicators[1].facts == {"asked": 1}


async def test_changes_are_told_once() -> None:
    fake = Fake("store")
    async with house(fake) as built:
        for status, reason in (("healthy", ""), ("unhealthy", "refused"), ("unhealthy", "refused"), ("healthy", "")):
            fake.status, fake.reason = status, reason  # type: ignore[assignment]
            await built.health.check()
            built.clock.pass_time(1)
        assert built.told == [
            HealthChanged(status="unhealthy", reason="store: refused"),
            HealthChanged(status="healthy", reason="all is well again"),
        ]


async def test_an_answer_is_kept_for_a_second() -> None:
    fake = Fake("a")
    async with house(fake) as built:
        first = await built.health.check()
        built.clock.pass_time(0.999)
        assert await built.health.check() is first
        built.clock.pass_time(0.001)
        assert await built.health.check() is not first
        assert fake.asked == 2
    async with house(fake, cache_ttl_ms=0) as built:
        await built.health.check()
        await built.health.check()
        assert fake.asked == 4


async def test_a_check_that_has_just_ended_is_not_answered_from() -> None:
    """Who asks in a loop would be answered for ever, without a pause in which anything else can happen."""
    fake = Fake("a")
    async with house(fake, cache_ttl_ms=0) as built:
        asking = asyncio.create_task(built.health.check())
        await asyncio.sleep(0)
        (running,) = (task for task in asyncio.all_tasks() if task.get_name() == "health check")
        while not running.done():
            await asyncio.sleep(0)
        await built.health.check()
        assert fake.asked == 2
        await asking


async def test_all_who_ask_at_once_share_one_check_and_one_may_give_up() -> None:
    fake, gate = Fake("a"), asyncio.Event()
    fake.gate = gate.wait
    async with house(fake) as built:
        askers = [asyncio.create_task(built.health.check()) for _ in range(10)]
        await fake.started.wait()
        askers[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await askers[0]
        gate.set()
        reports = await asyncio.gather(*askers[1:])
        assert fake.asked == 1
        assert len({id(report) for report in reports}) == 1
        assert reports[0].status == "healthy"


async def test_indicators_are_asked_side_by_side() -> None:
    together = asyncio.Barrier(2)
    first, second = Fake("a"), Fake("b")
    first.gate = second.gate = together.wait
    async with house(first, second) as built:
        assert (await built.health.check()).status == "healthy"


async def test_a_slow_check_is_cut_and_the_others_are_told() -> None:
    slow, quick = Fake("slow"), Fake("quick")
    slow.gate = asyncio.Event().wait
    async with house(slow, quick, timeout_ms=30) as built:
        report = await built.health.check()
        assert [(each.status, each.reason) for each in report.indicators] == [
            ("unhealthy", "no answer within 30 ms"),
            ("healthy", ""),
        ]
        await asyncio.wait_for(until(lambda: slow.ended == 1), 5)


async def test_checks_that_cannot_be_cut_do_not_pile_up() -> None:
    release, stubborn = asyncio.Event(), Fake("stubborn")

    async def ignores_cancellation() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    stubborn.gate = ignores_cancellation
    async with house(stubborn, timeout_ms=20, cache_ttl_ms=0) as built:
        try:
            reasons = [(await built.health.check()).reason for _ in range(4)]
        finally:
            release.set()  # or a failing test would hang
        assert reasons == ["stubborn: no answer within 20 ms"] * 4
        assert stubborn.asked == 1
        await asyncio.wait_for(until(lambda: stubborn.ended == 1), 5)
        assert (await built.health.check()).status == "healthy"
        assert stubborn.asked == 2


async def test_what_a_check_raises_is_its_reason() -> None:
    broken, bad = Fake("broken"), Fake("cut")

    async def breaks() -> None:
        raise ConnectionError("refused")

    async def cuts() -> None:
        raise asyncio.CancelledError

    broken.gate, bad.gate = breaks, cuts
    async with house(broken, bad) as built:
        report = await built.health.check()
        assert report.reason == "broken: ConnectionError: refused; cut: the check was cancelled"


class Plain:
    """Not quite an indicator: its check is no coroutine function, or says something else."""

    critical = True

    def __init__(self, name: str, said: Any) -> None:
        self.name, self.said = name, said

    def check(self) -> Any:
        return self.said


async def test_what_is_no_indicator_is_told_as_its_reason() -> None:
    async def yes() -> bool:
        return True

    async with house(Plain("sync", Indication("healthy")), Plain("bool", yes())) as built:
        report = await built.health.check()
        assert [each.reason for each in report.indicators] == [
            "TypeError: object Indication can't be used in 'await' expression",
            "TypeError: check() returned True, not an Indication",
        ]


async def test_one_that_comes_during_a_check_is_asked_too() -> None:
    slow, gate = Fake("slow"), asyncio.Event()
    slow.gate = gate.wait
    async with house(slow) as built:
        asking = asyncio.create_task(built.health.check())
        await slow.started.wait()
        built.health.add(Fake("late", "degraded"))
        one = asyncio.create_task(built.health.check_one("late"))
        gate.set()
        assert len((await asking).indicators) == 1
        assert (await one).status == "degraded"


async def test_indicators_come_and_go() -> None:
    async with house(Fake("a")) as built:
        with pytest.raises(UsageError, match="there is a health indicator named 'a' already"):
            built.health.add(Fake("a"))
        assert (await built.health.check_one("a")).facts == {"asked": 1}
        built.health.add(Fake("b", "degraded"))
        assert (await built.health.check()).status == "degraded"
        assert built.health.remove("b") is True
        assert built.health.remove("b") is False
        assert (await built.health.check()).status == "healthy"
        with pytest.raises(NotFound, match=r"no health indicator is named 'b'\. There are: a"):
            await built.health.check_one("b")


async def test_closing_ends_what_runs() -> None:
    slow = Fake("slow")
    slow.gate = asyncio.Event().wait
    built = House(slow)
    asking = asyncio.create_task(built.health.check())
    await slow.started.wait()
    await built.health.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert slow.ended == 1


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0)
