"""A real `workfleet run` whose Redis goes away: it is not ready, but alive; nothing restarts, nothing is lost, and it
goes on by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from tests.fleet.program_facts import JOBS
from tests.fleet.running import STARTED, Running, done, rows, start
from tests.fleet.running import until as until_blocking
from tests.fleet.test_probes import probe
from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]
PASSWORD = "hunter2#/@:%+ w?rd"
SECRET = quote(PASSWORD, safe="")
MOST_LINES = 60
"""So much may be said of an outage of twenty seconds or so, by three processes together."""


@pytest.fixture(autouse=True)
def no_run_is_left() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().end()


@pytest.fixture
def durable(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[Server]:
    kept = ("--appendonly", "yes", "--appendfsync", "always", "--requirepass", PASSWORD)
    made = Server(tmp_path_factory.mktemp("r"), *kept, binary=binary)
    made.start()
    yield made
    made.stop()


async def until(what: object, name: str) -> None:
    await asyncio.to_thread(until_blocking, what, name)  # type: ignore[arg-type]


def begin(folder: Path, port: int) -> Running:
    (folder / "workfleet.yaml").touch()
    url = f"redis://:{SECRET}@127.0.0.1:{port}/0"
    return start(folder, "--processes", "2", store=url, poll="1s", lease="6s")


async def answers(folder: Path, which: str, code: int) -> None:
    await until(lambda: probe(folder, which) == code, f"{which} is {code}")


def judged(folder: Path, run: Running) -> None:
    """Each job is done. One runs again where its lease was over before the store came back, and never a third time."""
    assert done(folder) == list(range(JOBS))
    runs = Counter(number for (number,) in rows(folder, "select number from runs where what = 'begin'"))
    assert max(runs.values()) <= 2
    assert PASSWORD not in run.log()
    assert SECRET not in run.log()


@pytest.mark.parametrize("how", ["packets are dropped", "the server is down"])
async def test_it_lives_through_an_outage(durable: Server, tmp_path: Path, how: str) -> None:
    async with Proxy(durable.port) as proxy:
        run = begin(tmp_path, proxy.port)
        await answers(tmp_path, "ready", 0)
        await until(lambda: len(done(tmp_path)) >= 3, "it works")
        before = {psutil.Process(each.pid) for each in (run.supervisor, *run.workers())}
        said = run.log().count("\n")
        if how == "packets are dropped":
            proxy.silent = True
        else:
            durable.stop()
        await answers(tmp_path, "ready", 1)
        for _ in range(10):
            assert await asyncio.to_thread(probe, tmp_path, "live") == 0
            await asyncio.sleep(1)
        flood = run.log().count("\n") - said
        if how == "packets are dropped":
            proxy.silent = False
        else:
            await asyncio.to_thread(durable.start)
        await until(lambda: len(done(tmp_path)) == JOBS, "it goes on")
        await answers(tmp_path, "ready", 0)
        assert {psutil.Process(each.pid) for each in (run.supervisor, *run.workers())} == before
        assert flood <= MOST_LINES, run.log()
        run.process.terminate()
        assert await asyncio.to_thread(run.wait) == 0
        judged(tmp_path, run)


async def test_it_is_started_before_its_server(durable: Server, tmp_path: Path) -> None:
    durable.stop()
    run = begin(tmp_path, durable.port)
    await asyncio.sleep(8)
    assert run.process.poll() is None
    assert await asyncio.to_thread(probe, tmp_path, "ready") == 1
    await asyncio.to_thread(durable.start)
    await until(lambda: len(done(tmp_path)) == JOBS, "it works")
    await answers(tmp_path, "ready", 0)
    run.process.terminate()
    assert await asyncio.to_thread(run.wait) == 0
    assert run.log().count("\n") <= MOST_LINES + 2 * JOBS, run.log()
    judged(tmp_path, run)


async def test_a_wrong_password_ends_it_at_once(durable: Server, tmp_path: Path) -> None:
    (tmp_path / "workfleet.yaml").touch()
    run = start(tmp_path, store=f"redis://:wr0ng@127.0.0.1:{durable.port}/0")
    assert await asyncio.to_thread(run.wait) == 3
    assert "the server refuses the user or the password (WRONGPASS)" in run.log()
    assert "wr0ng" not in run.log()
    assert "Traceback" not in run.log()
