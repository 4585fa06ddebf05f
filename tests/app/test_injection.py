"""Injection: what is wrong is told with its path before anything runs; resources live and die in order."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from dishka import Provider, Scope, provide
from pydantic import BaseModel

from tests.app.working import Worker, problems, start_problems, until
from workfleet import (
    App,
    Client,
    Health,
    Job,
    Jobs,
    LockModule,
    Locks,
    Metrics,
    Module,
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


class Smtp:
    def __init__(self, log: list[str]) -> None:
        self.log = log


class Session:
    def __init__(self, number: int) -> None:
        self.number = number


class Log(list[str]):
    """What happened, in order. It is given to the graph as a ready object."""


class Resources(Provider):
    """Two of the process (the second needs the first), one of each run."""

    def __init__(self, log: Log, fail_at: str = "") -> None:
        super().__init__()
        self.log, self.fail_at, self.sessions = log, fail_at, 0

    @provide(scope=Scope.APP)
    def log_of(self) -> Log:
        return self.log

    @provide(scope=Scope.APP)
    async def database(self) -> AsyncIterator[dict[str, str]]:
        self._step("open database")
        yield {}
        self._step("close database")

    @provide(scope=Scope.APP)
    async def smtp(self, database: dict[str, str]) -> AsyncIterator[Smtp]:
        self._step("open smtp")
        yield Smtp(self.log)
        self._step("close smtp")

    @provide(scope=Scope.REQUEST)
    async def session(self, database: dict[str, str]) -> AsyncIterator[Session]:
        self.sessions += 1
        number = self.sessions
        self._step(f"open session {number}")
        yield Session(number)
        self._step(f"close session {number}")

    def _step(self, what: str) -> None:
        self.log.append(what)
        if what == self.fail_at:
            raise RuntimeError(f"{what} failed")


class Emails:
    def __init__(self, smtp: Smtp) -> None:
        self.smtp = smtp

    @handler()
    async def send(self, job: Job[int], session: Session, smtp: Smtp) -> str:
        assert smtp is self.smtp
        return f"session {session.number}"

    @handler()
    def in_thread(self, job: Job[int], session: Session) -> str:
        return f"session {session.number}"

    @handler()
    async def fails(self, job: Job[int], session: Session) -> None:
        raise ValueError("no")


def app_of(*jobs: Any, log: Log | None = None, fail_at: str = "", **facts: Any) -> App:
    resources = Resources(Log() if log is None else log, fail_at)
    return App("x", modules=[Module("mail", providers=[resources], jobs=list(jobs))], **facts)


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
        "injection": "WithoutPool -> Images: no module lists the @process class Images under its jobs"
    }


# Hooks


def hooked(log: list[str]) -> App:
    def module(name: str, *imports: Module) -> Module:
        made = Module(name, imports=list(imports))
        for when in ("init", "bootstrap", "drain", "shutdown"):
            hook(made, name, when)
        return made

    def hook(made: Module, name: str, when: str) -> None:
        @getattr(made, f"on_{when}")
        async def called(client: Client) -> None:
            log.append(f"{name} {when}")

    base = module("base")
    app = App("x", modules=[module("mail", base), module("media", base)])
    for when in ("init", "bootstrap", "drain", "shutdown"):
        hook(app, "app", when)
    return app


async def test_hooks_are_called_in_dependency_order_and_back() -> None:
    log: list[str] = []
    async with Worker(hooked(log)):
        started = list(log)
    forth, back = ["base", "mail", "media", "app"], ["app", "media", "mail", "base"]
    assert started == [f"{name} init" for name in forth] + [f"{name} bootstrap" for name in forth]
    assert log[len(started) :] == [f"{name} drain" for name in back] + [f"{name} shutdown" for name in back]


async def test_a_hook_that_fails_at_the_start_stops_it_and_what_had_begun_is_shut_down() -> None:
    log: list[str] = []
    app = hooked(log)

    @app.imports[0].on_init
    def fails() -> None:
        raise RuntimeError("no init")

    with pytest.raises(RuntimeError, match="no init"):
        await Worker(app).runtime.start()
    assert log == ["base init", "mail init", "mail shutdown", "base shutdown"]


async def test_hooks_that_fail_or_hang_at_the_end_do_not_keep_the_others_from_being_called() -> None:
    log: list[str] = []
    app = hooked(log)

    @app.imports[1].on_shutdown
    async def hangs() -> None:
        await asyncio.Event().wait()

    @app.on_drain
    def fails() -> None:
        raise RuntimeError("no drain")

    async with Worker(app, stop_ms=0) as worker:
        pass
    assert [line for line in log if "shutdown" in line] == [
        "app shutdown", "media shutdown", "mail shutdown", "base shutdown"
    ]  # fmt: skip
    assert len(worker.runtime.problems) == 2
    assert worker.runtime.problems[0].endswith("fails): RuntimeError('no drain')")
    assert "media.on_shutdown" in worker.runtime.problems[1]
    assert "was ended: all hooks of this kind have" in worker.runtime.problems[1]


async def test_a_hook_that_asks_for_what_nothing_provides_is_told_before_the_start() -> None:
    app = App("x")

    @app.on_init
    def wants(thing: complex) -> None: ...

    assert list((await start_problems(app)).values()) == [
        "nothing provides complex: add a provider to a module, or fix the type hint"
    ]


# Settings of modules


class MailSettings(BaseModel):
    give_up_after: int = 3


class ReadsSettings:
    @handler()
    async def work(self, job: Job[int], settings: MailSettings) -> int:
        return settings.give_up_after


@pytest.mark.parametrize(("variable", "result"), [(None, 3), ("7", 7)])
async def test_a_modules_section_is_injected_by_its_type(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, result: int
) -> None:
    if variable is not None:
        monkeypatch.setenv("WORKER_MAIL__GIVE_UP_AFTER", variable)
    app = App("x", modules=[Module("mail", jobs=[ReadsSettings], settings=MailSettings)])
    async with Worker(app) as worker:
        ref = await worker.client.enqueue(ReadsSettings.work.job(1))
        assert await ref.result(timeout="10s") == result


async def lock_ttl(app: App) -> int:
    async with Worker(app) as worker:
        locks = await worker.get(Locks)
        async with locks.lock("a"):
            (grant,) = await locks.list()
            return round((grant.expires_ms - await worker.store.now_ms()) / 1000)


def make_lock_options(log: Log) -> dict[str, str]:
    log.append("made")
    return {"default_ttl": "20s"}


async def make_later(log: Log) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"default_ttl": "20s"}


def make_nonsense() -> Any:
    return 42


@pytest.mark.parametrize("factory", [make_lock_options, make_later])
async def test_module_options_given_or_made_are_below_what_the_operator_says(
    monkeypatch: pytest.MonkeyPatch, factory: Any
) -> None:
    def app(module: Module) -> App:
        return App("x", modules=[module], providers=[Resources(Log())])

    assert await lock_ttl(app(Module("none"))) == 60
    assert await lock_ttl(app(LockModule(default_ttl="10s"))) == 10
    assert await lock_ttl(app(LockModule(factory=factory))) == 20
    monkeypatch.setenv("WORKER_LOCK__DEFAULT_TTL", "30s")
    assert await lock_ttl(app(LockModule(default_ttl="10s"))) == 30
    assert await lock_ttl(app(LockModule(factory=factory))) == 30


async def test_a_factory_that_makes_no_options() -> None:
    app = App("x", modules=[LockModule(factory=make_nonsense)])
    with pytest.raises(Exception, match="the module's factory returned int; it returns the options as a mapping"):
        await lock_ttl(app)


def test_options_and_a_factory_together_are_refused() -> None:
    with pytest.raises(TypeError, match="the lock module: give options or a factory, not both"):
        LockModule(factory=make_lock_options, default_ttl="1m")


def test_a_section_that_two_modules_give() -> None:
    twice = Module("again", given={"lock": {"default_ttl": "1m"}})
    assert problems(App("x", modules=[LockModule(default_ttl="1m"), twice])) == {
        "lock": "two modules give this section: compose it once"
    }
