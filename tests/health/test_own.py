"""The application's own indicators: declared or added, with injected parameters, and harmless whatever they do."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from dishka import Provider, Scope

from tests.app.working import Worker, start_problems, until
from workfleet import App, Health, HealthModule, Indication, Job, Module
from workfleet.events import HealthChanged


class Gateway:
    """Something of the application."""

    def __init__(self) -> None:
        self.down = False


def app_with(*modules: Module, gateway: Gateway | None = None) -> App:
    provider = Provider(scope=Scope.APP)
    provider.provide(lambda: gateway or Gateway(), provides=Gateway)
    # The loop of a busy machine is late: it is not what these tests are about.
    quiet = HealthModule(event_loop=False, memory=False, disk=False, cache_ttl="0s", interval="100ms", timeout="300ms")
    return App("shop", modules=[quiet, *modules], providers=[provider])


async def test_a_declared_one_has_injected_parameters_and_runs_in_the_loop_or_in_a_thread(project: Path) -> None:
    gateway, threads = Gateway(), set[int]()
    app = app_with(gateway=gateway)

    @app.health_indicator("gateway", critical=False)
    async def look(gate: Gateway) -> Indication:
        return Indication("degraded", {"down": gate.down}, "it is slow") if gate.down else Indication("healthy")

    @app.health_indicator("plain")
    def plain(gate: Gateway) -> None:
        threads.add(threading.get_ident())
        if gate.down:
            raise ConnectionError("refused")

    async with Worker(app) as worker:
        health = await worker.get(Health)
        assert (await health.check()).status == "healthy"
        gateway.down = True
        said = await health.check_one("gateway")
        assert (said.status, said.critical, said.facts, said.reason) == (
            "degraded",
            False,
            {"down": True},
            "it is slow",
        )
        said = await health.check_one("plain")
        assert (said.status, said.critical, said.reason) == ("unhealthy", True, "ConnectionError: refused")
    assert threading.get_ident() not in threads
    assert len(threads) >= 1
    assert await look(Gateway()) == Indication("healthy")


async def test_a_module_s_is_asked_too(project: Path) -> None:
    mail = Module("mail")

    @mail.health_indicator("smtp")
    async def look() -> Indication:
        return Indication("unhealthy", reason="no route")

    async with Worker(app_with(mail)) as worker:
        await until(lambda: worker.runtime.readiness.unready == ("smtp: no route",))
        (told, *_) = worker.told(HealthChanged)
        assert (told.status, told.reason) == ("unhealthy", "smtp: no route")


@pytest.mark.parametrize("critical", [True, False])
async def test_only_critical_ones_make_the_worker_unready(project: Path, critical: bool) -> None:
    app = app_with()
    app.health_indicator("gate", critical=critical)(lambda: Indication("unhealthy", reason="closed"))
    async with Worker(app) as worker:
        await until(lambda: worker.runtime.readiness.report)
        assert worker.runtime.readiness.unready == (("gate: closed",) if critical else ())
        report = worker.runtime.readiness.report
        assert report is not None
        assert report.status == ("unhealthy" if critical else "degraded")


async def test_before_the_first_check_a_worker_is_not_ready(project: Path) -> None:
    app, gate = app_with(), asyncio.Event()

    @app.health_indicator("slow", timeout="30s")
    async def slow() -> None:
        await gate.wait()

    async with Worker(app) as worker:
        assert worker.runtime.readiness.unready == ("its health is not known yet",)
        gate.set()
        await until(lambda: worker.runtime.readiness.unready == ())


async def test_one_that_hangs_harms_nobody(project: Path) -> None:
    app, done, asked, free = app_with(), list[int](), list[str](), threading.Event()

    @app.health_indicator("hangs", critical=False, timeout="50ms")
    async def hangs() -> None:
        asked.append("loop")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if free.is_set():
                    raise

    @app.health_indicator("thread", critical=False)
    def in_thread() -> None:
        asked.append("thread")
        free.wait()

    @app.handler("work", queue="work")
    async def work(job: Job[int]) -> None:
        done.append(job.data)

    try:
        async with Worker(app) as worker:
            health = await worker.get(Health)
            reports = [await health.check() for _ in range(5)]
            assert reports[-1].reason == "hangs: no answer within 50 ms; thread: no answer within 300 ms"
            assert sorted(asked) == ["loop", "thread"], "slow checks pile up"
            await worker.client.enqueue(work.job(7))
            await until(lambda: done == [7])
            assert worker.runtime.readiness.unready == ()
            free.set()
    finally:
        free.set()  # or a failing test would hang
    assert worker.stopped is not None
    assert worker.stopped.refused == ()


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (SystemExit(3), "RuntimeError: it raised SystemExit: 3"),
        (KeyboardInterrupt(), "RuntimeError: it raised KeyboardInterrupt"),
        ("fine", "TypeError: look() returned 'fine', not an Indication or None"),
        (Indication("splendid"), "it said 'splendid', not healthy, degraded or unhealthy"),  # type: ignore[arg-type]
        (Indication("healthy", {"odd": Odd()}), "what it said cannot be told (RuntimeError)"),  # type: ignore[dict-item]
        (Indication("unhealthy", reason="redis://me:s3cret@host is\n down \ud800"), "redis://me:***@host is down ?"),
        (ValueError("x" * 9_000), f"ValueError: {'x' * 487}…"),
    ],
)
async def test_whatever_it_says_can_be_told(project: Path, said: Any, reason: str) -> None:
    app = app_with()

    @app.health_indicator("odd")
    async def look() -> Any:
        if isinstance(said, BaseException):
            raise said
        return said

    async with Worker(app) as worker:
        found = await (await worker.get(Health)).check_one("odd")
        assert (found.status, found.reason) == ("unhealthy", reason)


async def test_facts_become_plain(project: Path) -> None:
    facts = {"count": 3, "share": 0.5, "on": True, "none": None, "big": 2**70, "nan": float("nan"), "path": Path("/a")}
    app = app_with()
    app.health_indicator("facts")(lambda: Indication("healthy", facts))  # type: ignore[arg-type]
    async with Worker(app) as worker:
        found = await (await worker.get(Health)).check_one("facts")
    assert found.facts == {
        "count": 3, "share": 0.5, "on": True, "none": None, "big": str(2**70), "nan": "nan", "path": "/a",
    }  # fmt: skip


async def test_mistakes_are_found_at_the_start(project: Path) -> None:
    app = app_with()

    @app.health_indicator("store")
    async def taken() -> None: ...

    @app.health_indicator("twice")
    async def one() -> None: ...

    @app.health_indicator("twice")
    async def two() -> None: ...

    told = await start_problems(app)
    assert sorted(told.values()) == [
        "there is a health indicator named 'store' already",
        "there is a health indicator named 'twice' already",
    ]
    app = app_with()

    @app.health_indicator("needs")
    async def needs(what: Odd) -> None: ...

    @app.health_indicator("job")
    async def job(job: Job[int]) -> None: ...

    told = await start_problems(app)
    assert ["nothing provides Odd" in text or text == "a health indicator has no job" for text in told.values()] == (
        [True, True]
    )
    for name, timeout in (("", None), ("a", "0s")):
        with pytest.raises(ValueError, match="a health indicator needs"):
            app.health_indicator(name, timeout=timeout)


async def test_one_that_is_added_has_a_timeout_of_its_own(project: Path) -> None:
    class Slow:
        name = "slow"
        critical = False

        async def check(self) -> Indication:
            await asyncio.Event().wait()
            raise AssertionError

    async with Worker(app_with()) as worker:
        health = await worker.get(Health)
        health.add(Slow(), timeout="20ms")
        assert (await health.check_one("slow")).reason == "no answer within 20 ms"
        assert health.remove("slow")
        health.add(Slow())
        assert (await health.check_one("slow")).reason == "no answer within 300 ms"
