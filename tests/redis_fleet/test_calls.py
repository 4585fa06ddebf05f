"""A busy worker does not wait for the server's answer before it makes its next call: two are under way at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tests.fleet.running import TIMEOUT_S, start
from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord
from workfleet.stores.redis.store import RedisStore

JOBS = 200
PROGRAM = f"""
import asyncio
import os
from pathlib import Path

from workfleet import App, Job, handler, queue

HERE = Path(os.environ["TEST_FOLDER"])
running: list[asyncio.Future[None]] = []


@queue("work", concurrency={JOBS})
class Work:
    @handler("work")
    async def work(self, job: Job[None]) -> None:
        # The last one lets the others go on: half of them in one turn of the loop, then the rest.
        running.append(asyncio.get_running_loop().create_future())
        if len(running) < {JOBS}:
            await running[-1]
            return
        (HERE / "all").touch()
        for number in range(2):
            while not (HERE / f"go-{{number}}").exists():
                await asyncio.sleep(0.01)
            for each in running[number::2]:
                each.set_result(None)


app = App("busy", jobs=[Work])
"""


async def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < end, f"waited in vain: {what}"
        await asyncio.sleep(0.01)


def nothing(_: bytes) -> bytes:
    return b""


async def test_two_calls_are_under_way_at_a_time(own_server: Server, tmp_path: Path) -> None:
    own_server.start()
    (tmp_path / "busy.py").write_text(PROGRAM)
    store = await RedisStore.open(own_server.url, app="busy", clock=SystemClock())
    await store.jobs.enqueue([JobRecord(id=f"j{n}", name="work", queue="work", payload=b"null") for n in range(JOBS)])
    async with Proxy(own_server.port) as proxy:
        running = start(tmp_path, program=tmp_path / "busy.py", store=proxy.url, heartbeat_enabled="false")
        await until(lambda: (tmp_path / "all").exists() or running.process.poll() is not None, "all run")
        assert running.process.poll() is None, running.log()
        proxy.changed = nothing
        for number in range(2):
            (tmp_path / f"go-{number}").touch()
            await until(lambda: proxy.unanswered["cycle"] > 0, "a call")
        await until(lambda: proxy.unanswered["cycle"] == 2, "the second call while the first one is under way")
        running.end()
    await store.close()
