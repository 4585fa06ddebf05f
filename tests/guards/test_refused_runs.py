"""Runs that a guard refuses: put off without being an attempt, spread over the time to come, and none is lost."""

from __future__ import annotations

from workfleet import App, Job, circuit_breaker, handler, rate_limit, schedule
from workfleet.testing import Fleet


class Shop:
    """Handlers and schedules behind guards; the first `failing` calls fail."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.failing = 0

    async def work(self, value: object) -> None:
        if self.failing:
            self.failing -= 1
            raise OSError("down")
        self.done.append(value)

    @handler("limited", queue="shop")
    @rate_limit(2, "1m")
    async def limited(self, job: Job[int]) -> None:
        await self.work(job.data)

    @handler("waits", queue="shop")
    @rate_limit(1, "1m", on_limit="wait")
    async def waits(self, job: Job[int]) -> None:
        await self.work(job.data)

    @handler("fragile", queue="shop", attempts=2, backoff="1s")
    @circuit_breaker(threshold=1, reset_after="10m")
    async def fragile(self, job: Job[int]) -> None:
        await self.work(job.data)

    @schedule("fragile-schedule", every="1h", attempts=1)
    @circuit_breaker(threshold=1, reset_after="90m", scope="fleet")
    async def hourly(self, job: Job[None]) -> None:
        await self.work(job.slot)


def app() -> App:
    return App("shop", jobs=[Shop])


async def test_each_is_put_off_once_to_when_there_is_a_place() -> None:
    async with Fleet(app()) as fleet:
        shop = await fleet.get(Shop)
        refs = [await fleet.enqueue(Shop.limited.job(number)) for number in range(7)]
        for done in (2, 4, 6, 7):
            await fleet.run_until_idle()
            assert len(shop.done) == done
            await fleet.travel("1m")
        assert sorted(shop.done, key=str) == list(range(7))
        history = [[each.outcome for each in await fleet.attempts(ref)] for ref in refs]
        assert history == [["completed"]] * 2 + [["snoozed", "completed"]] * 5
        assert {(await ref.record()).attempts_made for ref in refs} == {1}


async def test_those_that_wait_go_in_their_order() -> None:
    async with Fleet(app(), patience="5s") as fleet:
        began = fleet.clock.now_ms()
        for number in range(4):
            await fleet.enqueue(Shop.waits.job(number))
        await fleet.run_until_idle()
        assert (await fleet.get(Shop)).done == [0, 1, 2, 3]
        assert fleet.clock.now_ms() - began == 3 * 60_000


async def test_an_open_circuit_uses_up_no_attempt() -> None:
    async with Fleet(app()) as fleet:
        shop = await fleet.get(Shop)
        shop.failing = 1
        first = await fleet.enqueue(Shop.fragile.job(1))
        await fleet.run_until_idle()
        second = await fleet.enqueue(Shop.fragile.job(2))
        await fleet.travel("9m")
        assert shop.done == []
        await fleet.travel("2m")
        assert sorted(shop.done, key=str) == [1, 2]
        history = [[each.outcome for each in await fleet.attempts(ref)] for ref in (first, second)]
        assert history == [["failed", "snoozed", "completed"], ["snoozed", "completed"]]
        assert (await first.record()).attempts_made == 2


async def test_a_schedule_s_run_is_put_off_as_well() -> None:
    async with Fleet(app()) as fleet:
        shop = await fleet.get(Shop)
        shop.failing = 1
        await fleet.travel("1h")
        await fleet.travel("1h")
        assert shop.done == []
        await fleet.travel("30m")
        (slot,) = shop.done
        assert [run.outcome for run in await fleet.runs("fragile-schedule")] == ["failed", "completed"]
        assert (await fleet.runs("fragile-schedule"))[1].slot == slot
