"""Hooks of an application are called in order, and the settings and options of its modules reach what reads them."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from tests.app.mailing import Log, Resources
from tests.app.working import Worker, problems, start_problems
from workfleet import (
    App,
    Client,
    Job,
    LockModule,
    Locks,
    Module,
    handler,
)

pytestmark = pytest.mark.usefixtures("project")


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
