"""Injection: what is wrong is told with its path before anything runs; resources live and die in order."""

import logging
from typing import TYPE_CHECKING

import pytest
from dishka import Provider, Scope, provide

from tests.app.mailing import Emails, Log, Session, app_of
from tests.app.working import Worker, start_problems, until
from workfleet import (
    App,
    Client,
    Health,
    Job,
    Jobs,
    Locks,
    Metrics,
    Pool,
    Pools,
    Queues,
    Schedules,
    handler,
    process,
    public,
    schedule,
)
from workfleet.events import JobSettled

if TYPE_CHECKING:
    from decimal import Decimal

pytestmark = pytest.mark.usefixtures("project")


async def test_process_and_run_scopes() -> None:
    log = Log()
    async with Worker(app_of(Emails, log=log)) as worker:
        refs = [await worker.client.enqueue(job(1)) for job in (Emails.send.job, Emails.in_thread.job)]
        results = [await ref.result(timeout="10s") for ref in refs]
        await worker.client.enqueue(Emails.fails.job(1, attempts=1))
        await until(lambda: len([e for e in worker.told(JobSettled) if not e.housekeeping]) == 3)
    assert sorted(results) == ["session 1", "session 2"]
    assert log[:2] == ["open database", "open smtp"]
    assert log[-2:] == ["close smtp", "close database"]
    assert sorted(log[2:-2]) == sorted(f"{step} session {number}" for step in ("open", "close") for number in (1, 2, 3))


async def test_resources_are_closed_in_reverse_also_when_the_start_fails_half_way() -> None:
    log = Log()
    with pytest.raises(RuntimeError, match="open smtp failed"):
        await Worker(app_of(Emails, log=log, fail_at="open smtp")).runtime.start()
    assert log == ["open database", "open smtp", "close database"]


async def test_one_that_fails_to_close_does_not_keep_the_others_open() -> None:
    log = Log()
    async with Worker(app_of(Emails, log=log, fail_at="close smtp")) as worker:
        pass
    assert log[-2:] == ["close smtp", "close database"]
    assert worker.runtime.problems == ["RuntimeError('close smtp failed')"]


# What can be injected


class Wants:
    def __init__(
        self, client: Client, jobs: Jobs, queues: Queues, schedules: Schedules, locks: Locks, pools: Pools,
        metrics: Metrics, health: Health, logger: logging.Logger,
    ) -> None:  # fmt: skip
        self.all = (client, jobs, queues, schedules, locks, pools, metrics, health, logger)

    @handler()
    async def work(self, job: Job[int], client: Client) -> list[str]:
        assert client is self.all[0]
        await client.enqueue(Emails.send.job(1, id="made-here"))
        assert isinstance(self.all[-1], logging.Logger)
        return [type(each).__name__ for each in self.all[:-1]]


async def test_everything_of_ours_can_be_injected() -> None:
    async with Worker(app_of(Wants, Emails)) as worker:
        ref = await worker.client.enqueue(Wants.work.job(1))
        assert await ref.result(timeout="10s") == [
            "Client", "Jobs", "Queues", "Schedules", "Locks", "Pools", "Metrics", "Health"
        ]  # fmt: skip
        assert await worker.client.enqueue(Emails.send.job(1, id="made-here")) is not None
        logger = await worker.get(logging.Logger)
    assert logger.name == "x"


# What is wrong is told with its path


class NeedsUnknown:
    def __init__(self, thing: complex) -> None: ...

    @handler()
    async def work(self, job: Job[int]) -> None: ...


class Leaks:
    def __init__(self, session: Session) -> None: ...

    @handler()
    async def work(self, job: Job[int]) -> None: ...


class Chicken:
    def __init__(self, egg: "Egg") -> None: ...


class Egg:
    def __init__(self, chicken: Chicken) -> None: ...


class Circle(Provider):
    scope = Scope.APP
    chicken = provide(Chicken)
    egg = provide(Egg)


class Parameters:
    @handler()
    async def unknown(self, job: Job[int], thing: complex, other: bytearray) -> None: ...

    @handler()
    async def checking(self, job: Job[int], amount: "Decimal") -> None: ...

    @handler()
    async def untyped(self, job: Job[int], thing) -> None: ...  # type: ignore[no-untyped-def]

    @handler()
    async def variable(self, job: Job[int], *things: int) -> None: ...

    @schedule(every="1h")
    async def late(self, thing: int, job: Job[None]) -> None: ...


@process("images")
class Images:
    @public
    def resize(self) -> int: ...


class WithoutPool:
    def __init__(self, images: Pool[Images]) -> None: ...

    @handler()
    async def work(self, job: Job[int], images: Pool[Images]) -> None: ...


HERE = __name__


async def test_a_missing_provider() -> None:
    assert await start_problems(app_of(NeedsUnknown)) == {
        "injection": (
            "NeedsUnknown -> complex: nothing provides complex: add a provider to a module, or fix the type hint"
        )
    }


async def test_a_scope_leak_says_what_to_do() -> None:
    assert await start_problems(app_of(Leaks)) == {
        "injection": (
            "Leaks -> Session: Session lives for one job, Leaks as long as the process: take it as a parameter of the "
            "method"
        )
    }


async def test_a_cycle() -> None:
    said = await start_problems(App("x", providers=[Circle()]))
    assert said["injection"] in (
        "these need each other: Chicken -> Egg -> Chicken",
        "these need each other: Egg -> Chicken -> Egg",
    )


async def test_parameters_are_all_told_at_once() -> None:
    said = await start_problems(app_of(Parameters))
    where = f"{HERE}.Parameters"
    advice = "add a provider to a module, or fix the type hint"
    assert said == {
        f"{where}.unknown(thing)": f"nothing provides complex: {advice}",
        f"{where}.unknown(other)": f"nothing provides bytearray: {advice}",
        f"{where}.checking": (
            "the type hint 'Decimal' is not known at run time. Import it outside of `if TYPE_CHECKING:` and define it "
            "at the top of the module: hints decide what is decoded and injected"
        ),
        f"{where}.untyped": "the parameter 'thing' has no type hint",
        f"{where}.variable": "*things cannot be injected: name each parameter",
        f"{where}.late": "`job: Job[…]` must be the first parameter",
    }


async def test_a_pool_whose_class_nobody_lists() -> None:
    assert await start_problems(app_of(WithoutPool)) == {
        "injection": "WithoutPool -> Images: no module lists the @process class Images under its jobs",
        f"{HERE}.WithoutPool.work(images)": "no module lists the @process class Images under its jobs",
    }
