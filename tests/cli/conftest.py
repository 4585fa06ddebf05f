"""A user's project in a temporary folder, and commands in it, without this machine's settings."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import pytest

from workfleet.cli.main import main
from workfleet.clock import SystemClock
from workfleet.ports.stores import Store
from workfleet.settings.store import default_store
from workfleet.stores.open import open_store

T = TypeVar("T")
TIMEOUT_S = 60

APP = """
import os
from dataclasses import dataclass

from workfleet import App, Fail, Job, NewJob

app = App("shop")


@dataclass
class Greeting:
    name: str
    times: int = 1


@app.handler("greet", queue="greetings", attempts=1)
async def greet(job: Job[Greeting]) -> str:
    job.log(f"hello {job.data.name}")
    if job.data.name == "nobody":
        raise ValueError("nobody\\x1b[31m is there")
    if job.data.name == "killer":
        os.kill(os.getpid(), 9)
    return job.data.name * job.data.times


@app.handler("refuse", queue="greetings")
async def refuse(job: Job[None]) -> None:
    raise Fail("not today")


@app.schedule(cron="30 2 * * *", timezone="Europe/Berlin", jitter="1m")
async def nightly() -> list[NewJob[str]]:
    return [greet.job(Greeting("Ada"))]


@app.schedule("off", every="1h", enabled=False)
async def switched_off() -> None: ...
"""


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Project:
    """A folder in which commands are run."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str = "", cwd: Path | None = None, **environ: str) -> Ran:
        """Run `workfleet` to its end: what starts processes as a process of its own, everything else in this one."""
        if arguments[0] in ("run", "dev"):
            return self.process(*arguments, cwd=cwd, **environ)
        return self.inside(*arguments, stdin=stdin, cwd=cwd, **environ)

    def typing(self, typed: str, *arguments: str) -> Ran:
        """Run `workfleet` in this process; standard input is a terminal, at which this is typed."""
        return self.inside(*arguments, terminal=Terminal(typed))

    def inside(
        self,
        *arguments: str,
        stdin: str = "",
        terminal: io.StringIO | None = None,
        cwd: Path | None = None,
        **environ: str,
    ) -> Ran:
        """Run `workfleet` in this process."""
        out, err = io.StringIO(), io.StringIO()
        with (
            untouched(clean({**self.environ, **environ}), cwd or self.folder),
            patch.object(sys, "stdin", terminal or io.StringIO(stdin)),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(arguments)
        return Ran(code, out.getvalue(), err.getvalue())

    def process(self, *arguments: str, stdin: str = "", cwd: Path | None = None, **environ: str) -> Ran:
        """Run `workfleet` as a process of its own, to its end."""
        done = subprocess.run(
            command(*arguments),
            cwd=cwd or self.folder,
            env=clean({**self.environ, **environ}),
            input=stdin,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def make_store(self, app: str) -> None:
        """An empty store, as the first run would make it."""
        url = default_store(self.folder, app)

        async def make() -> None:
            await (await open_store(url, app=app, clock=SystemClock(), create=True)).close()

        asyncio.run(make())

    def in_store(self, use: Callable[[Store], Awaitable[T]], app: str = "shop") -> T:
        """Do something in the project's store, which is made where it is not there."""

        async def run() -> T:
            store = await open_store(default_store(self.folder, app), app=app, clock=SystemClock(), create=True)
            try:
                return await use(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start `workfleet` and leave it running."""
        return subprocess.Popen(
            command(*arguments),
            cwd=self.folder,
            env=clean({**self.environ, **environ}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@contextmanager
def untouched(environ: dict[str, str], cwd: Path) -> Iterator[None]:
    """Another environment and folder; imports of user code are undone at the end."""
    path, before = sys.path[:], Path.cwd()
    os.chdir(cwd)
    try:
        with patch.dict(os.environ, environ, clear=True):
            yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        # Those too that have taken the place of another test's module of that name.
        for name in list(sys.modules):
            if str(cwd) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workfleet", *arguments]


def clean(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings, colours or a terminal's width."""
    ours = ("WORKER_", "WORKFLEET_", "REDIS_", "DB_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "APP_VERSION")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "WORKER_HEARTBEAT_ENABLED": "false", **extra}


def make_project(folder: Path) -> Project:
    project = Project(folder)
    project.write("app.py", APP)
    project.write("workfleet.yaml", "app: app.py\n")
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that names its application in workfleet.yaml. Nothing has run yet."""
    return make_project(tmp_path)


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """A folder that is a project's root, and empty else."""
    (tmp_path / ".git").mkdir()
    return Project(tmp_path)


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project in which jobs were done, failed and are waiting. Tests only read it."""
    project = make_project(tmp_path_factory.mktemp("worked"))
    project.make_store("shop")
    for arguments in (
        ("greet", '{"name": "Ada", "times": 2}', "--id", "done"),
        ("greet", '{"name": "nobody"}', "--id", "broken"),
        ("refuse", "--id", "refused"),
    ):
        assert project("enqueue", "greetings", *arguments).code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    assert project("enqueue", "greetings", "greet", '{"name": "late"}', "--id", "late", "--delay", "1d").code == 0
    return project


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Poll until the condition is true."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within 30 s")
