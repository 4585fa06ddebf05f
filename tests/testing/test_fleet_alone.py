"""A `Fleet` is alone: it reads nothing of the machine, writes nothing, and leaves nothing behind."""

import asyncio
import builtins
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from dishka import Provider, Scope
from pydantic import BaseModel, SecretStr

from tests.testing.shop import WELCOME, Emails, FakeSmtp, MailSettings, Session, Smtp, Welcome, make_app
from workfleet import App, ConfigError, Job, LockModule, Metrics, Module, UsageError, WorkfleetError, setting
from workfleet.events import JobEnqueued, JobSettled, WorkerReady, WorkerStopped
from workfleet.settings import Settings
from workfleet.settings.sections import LockSettings
from workfleet.testing import Fleet


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project and an environment that would break a worker."""
    (tmp_path / "pyproject.toml").write_text("[tool.workfleet]\nconcurrency = 0\n")
    (tmp_path / ".env").write_text("REDIS_ENABLED=true\nFROM_ENV_FILE=yes\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKER_STORE", "sqlite:////nowhere/at/all.db")
    monkeypatch.setenv("WORKER_QUEUE_ENABLED", "perhaps")
    monkeypatch.setenv("WORKER_MAIL__PORT", "2525")
    return tmp_path


async def test_neither_environment_nor_files_are_read_or_written(hostile: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in hostile.iterdir()}
    variables = dict(os.environ)
    elsewhere = {"store": f"sqlite:///{hostile}/other.db"}
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}, settings=elsewhere) as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(1)))
        await (await fleet.get(Metrics)).query("workfleet_jobs_total")
        await fleet.travel("1h")
        assert (await ref.record()).outcome == "completed"
        assert (await fleet.get(MailSettings)).port == 25
    assert {path: path.stat().st_mtime_ns for path in hostile.iterdir()} == before
    assert dict(os.environ) == variables


async def test_no_file_is_opened(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, real = list[Any](), builtins.open

    def noted(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(file)
        return real(file, *args, **kwargs)

    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}):
        pass  # modules are imported, with their zone files
    monkeypatch.setattr(builtins, "open", noted)
    monkeypatch.setattr("io.open", noted)
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        await fleet.enqueue(WELCOME(Welcome(1)))
        await fleet.travel("1d")
    assert [file for file in opened if not str(file).startswith("/proc/")] == []


async def test_settings_are_those_of_the_code_and_of_the_test() -> None:
    app = App("shop", modules=[LockModule(default_ttl="2m", retries=7)])
    said = {"lock": {"default_ttl": "90s"}, "timezone": "Europe/Berlin", "max_crashes": 5}
    async with Fleet(app, settings=said) as fleet:
        lock = await fleet.get(LockSettings)
        assert (lock.default_ttl.total_seconds(), lock.retries) == (90, 7)
        core = await fleet.get(Settings)
        assert (core.timezone, core.max_crashes, core.concurrency) == ("Europe/Berlin", 5, 10)


async def test_wrong_settings_are_all_named_with_where_they_were_said() -> None:
    class Secrets(BaseModel):
        password: SecretStr

    app = App("shop", modules=[Module("mail", settings=Secrets)])
    with pytest.raises(ConfigError) as caught:
        async with Fleet(app, settings={"concurrency": 0, "lok": {"retries": 1}}):
            pass
    said = [(problem.name, problem.origin) for problem in caught.value.problems]
    assert said == [("lok", "Fleet(settings=…)"), ("concurrency", "Fleet(settings=…)"), ("WORKER_MAIL__PASSWORD", None)]
    async with Fleet(app, settings={"mail": {"password": "hunter2"}}) as fleet:
        assert (await fleet.get(Secrets)).password.get_secret_value() == "hunter2"


async def test_a_setting_in_a_decorator_is_resolved() -> None:
    app = App("shop", modules=[Module("mail", settings=MailSettings)])

    @app.schedule("beat", every=setting("heartbeat_every"))
    async def beat() -> None: ...

    async with Fleet(app, settings={"heartbeat_every": "10m"}) as fleet:
        await fleet.travel("1h")
        assert len(await fleet.runs("beat")) == 6


async def test_the_built_in_jobs_are_left_out() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        await fleet.travel("2m")
        assert [schedule.name for schedule in await fleet.schedules.list()] == ["Cleanup.nightly", "remind"]
        assert await fleet.jobs.list() == []
        assert await fleet.queues.list() == {}


async def test_run_on_start_runs_with_the_first_call() -> None:
    app, ran = App("shop", version="7"), list[str]()

    @app.schedule("each", run_on_start=True)
    async def each() -> None:
        ran.append("each")

    @app.schedule("release", run_on_start="release")
    async def release() -> None:
        ran.append("release")

    async with Fleet(app) as fleet:
        await asyncio.sleep(0.01)
        assert ran == []
        await fleet.run_until_idle()
        assert sorted(ran) == ["each", "release"]


async def test_objects_are_replaced_whatever_provides_them() -> None:
    smtp, session, settings = FakeSmtp(), Session(), MailSettings(host="elsewhere", port=1)
    async with Fleet(make_app(), replace={Smtp: smtp, Session: session, MailSettings: settings}) as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(7)))
        await fleet.run_until_idle()
        assert smtp.sent == [7]
        assert session.open  # the test's own object: nobody closes it
        assert await fleet.jobs.logs(ref.id) == ["by elsewhere:1"]
    emails = Emails(smtp, settings)
    async with Fleet(make_app(), replace={Emails: emails, Smtp: smtp}) as fleet:
        assert await fleet.get(Emails) is emails
    with pytest.raises(ConfigError, match="replace FakeSmtp: nothing provides this type"):
        async with Fleet(make_app(), replace={FakeSmtp: smtp}):
            pass


async def test_hooks_run_and_resources_are_closed_in_reverse() -> None:
    said = list[str]()

    class Pool:
        pass

    class Provide(Provider):
        scope = Scope.APP

        def __init__(self) -> None:
            super().__init__()
            self.provide(self.pool)

        async def pool(self) -> AsyncIterator[Pool]:
            said.append("open")
            yield Pool()
            said.append("close")

    part = Module("part", providers=[Provide()])
    app = App("shop", modules=[part])

    @part.on_init
    async def init(pool: Pool) -> None:
        said.append("init")

    @part.on_bootstrap
    async def bootstrap() -> None:
        said.append("bootstrap")

    @app.on_drain
    async def drain() -> None:
        said.append("drain")

    @part.on_shutdown
    async def shutdown() -> None:
        said.append("shutdown")

    async with Fleet(app):
        assert said == ["open", "init", "bootstrap"]
    assert said[3:] == ["drain", "shutdown", "close"]


async def test_what_goes_wrong_while_stopping_fails_the_test() -> None:
    app = App("shop")

    @app.on_shutdown
    async def shutdown() -> None:
        raise ValueError("the pipe is broken")

    with pytest.raises(WorkfleetError, match=r"shop\.on_shutdown .*the pipe is broken"):
        async with Fleet(app):
            pass
    with pytest.raises(KeyError):  # the test's own failure is what counts
        async with Fleet(app):
            raise KeyError("test")


async def test_no_task_and_no_thread_is_left() -> None:
    app = App("shop")

    @app.handler(queue="emails")
    async def endless(job: Job[None]) -> None:
        await asyncio.Event().wait()

    @app.handler(queue="emails")
    def short(job: Job[None]) -> None: ...

    before, threads = asyncio.all_tasks(), threading.active_count()
    async with Fleet(app, patience="20ms") as fleet:
        await fleet.enqueue(short.job(None))
        await fleet.enqueue(endless.job(None))
        with pytest.raises(TimeoutError):
            await fleet.run_until_idle()
        async with fleet.locks.lock("x"):
            pass
    assert asyncio.all_tasks() == before
    for thread in threading.enumerate():
        if thread.name.startswith("workfleet"):
            thread.join(5)
    assert threading.active_count() == threads
    given_back = [event for event in fleet.events if isinstance(event, WorkerStopped)]
    assert [event.given_back for event in given_back] == [1]


async def test_a_start_that_fails_leaves_nothing() -> None:
    app, before = App("shop"), asyncio.all_tasks()

    @app.on_bootstrap
    async def bootstrap() -> None:
        raise ValueError("no")

    fleet = Fleet(app)
    with pytest.raises(ValueError, match="no"):
        await fleet.__aenter__()
    assert asyncio.all_tasks() == before
    with pytest.raises(UsageError, match="not running"):
        await fleet.run_until_idle()


async def test_events_are_everything_that_happened() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        with pytest.raises(UsageError, match="running already"):
            await fleet.__aenter__()
        ref = await fleet.enqueue(WELCOME(Welcome(1)))
        await fleet.run_until_idle()
        (enqueued,) = [event for event in fleet.events if isinstance(event, JobEnqueued)]
        (settled,) = [event for event in fleet.events if isinstance(event, JobSettled)]
        assert (enqueued.id, enqueued.created, settled.id, settled.state) == (ref.id, True, ref.id, "completed")
        assert [event.worker for event in fleet.events if isinstance(event, WorkerReady)] == ["test"]
