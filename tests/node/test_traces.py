"""One trace through both languages: a Node producer, our worker, its pool's child, and a Node worker after it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.app.working import Worker, until, write
from tests.node.install import HERE, NoNode, node_modules
from tests.node.ours import job
from tests.observe.spans import Told, id_of, installed, is_below, parent_of, trace_of
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.events import JobSettled
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full

PROGRAM = """
from opentelemetry import trace

from workfleet import App, Client, Job, JobType, Module, Pool, handler, on_start, process, public, queue

THUMB = JobType("thumb", int, None, queue="thumbs")


@process("images", size=1, monitoring={"tracing": True})
class Images:
    @on_start
    def configure(self) -> None:
        import tests.observe.child_sdk  # an SDK that writes spans to a file

    @public
    def resize(self, width: int) -> int:
        with trace.get_tracer("images").start_as_current_span("own"):
            return width // 2


@queue("media")
class Media:
    def __init__(self, images: Pool[Images], client: Client) -> None:
        self.images, self.client = images, client

    @handler("resize")
    async def resize(self, job: Job[int]) -> None:
        await self.client.enqueue(THUMB(await self.images.resize(job.data)))


app = App("shop", modules=[Module("media", jobs=[Media, Images])])
"""


@pytest.fixture(scope="session")
def traced_packages() -> Path:
    """Node's packages with an OpenTelemetry SDK, installed once."""
    try:
        return node_modules(HERE / "traces")
    except NoNode as reason:
        pytest.skip(f"without Node's packages: {reason}")


class Side:
    """The Node program: what it is told to do, and the spans that it answers with."""

    def __init__(self, packages: Path, server: Server) -> None:
        self._command = ["node", str(HERE / "traces" / "side.js"), str(packages), str(urlsplit(server.url).port)]

    async def __call__(self, *what: str) -> dict[str, dict[str, Any]]:
        ended = await asyncio.to_thread(
            subprocess.run, [*self._command, *what], capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return {span["name"]: span for span in json.loads(ended.stdout)}


@pytest.fixture
def side(traced_packages: Path, server: Server) -> Side:
    return Side(traced_packages, server)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("WORKER_", "REDIS_", "DB_")):
            monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    write(tmp_path, {"traced_with_node": PROGRAM})
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRACED_TO", str(tmp_path / "spans.jsonl"))
    return tmp_path


@pytest.fixture
def told() -> Iterator[Told]:
    with installed() as told:
        yield told


@pytest_asyncio.fixture
async def worker(folder: Path, server: Server, told: Told) -> AsyncIterator[Worker]:
    app = import_module("traced_with_node").app
    settings = {"store": server.url, "queue_prefix": "bull", "heartbeat_enabled": False, "scheduler_enabled": False}
    async with Worker(app, locator="traced_with_node:app", **settings) as worker:
        yield worker


async def test_one_trace_from_node_through_our_worker_and_its_child_to_node(
    side: Side, worker: Worker, told: Told, folder: Path
) -> None:
    sent = await side("add", "resize", "64")
    await until(lambda: [each for each in worker.told(JobSettled) if each.id == "from-node"], 60)
    received = await side("work")

    checkout, add = sent["checkout"], sent["add media.resize"]
    run, call, enqueue = told.only("run media"), told.only("images.resize"), told.only("enqueue thumbs")
    inside, own = [json.loads(line) for line in (folder / "spans.jsonl").read_text().splitlines()][::-1]
    process, after = received["process thumbs"], received["own"]
    assert add["parent"] == checkout["id"]
    assert parent_of(run) == add["id"]
    assert is_below(call, run)
    assert (inside["name"], inside["parent_id"]) == ("images.resize", f"0x{id_of(call)}")
    assert (own["name"], own["parent_id"]) == ("own", inside["context"]["span_id"])
    assert is_below(enqueue, run)
    assert process["parent"] == id_of(enqueue)
    assert after["parent"] == process["id"]
    traces = {trace_of(span) for span in (run, call, enqueue)} | {span["trace"] for span in (add, process, after)}
    assert traces | {span["context"]["trace_id"].removeprefix("0x") for span in (inside, own)} == {checkout["trace"]}


@pytest.mark.parametrize("metadata", ["no carrier", "7", '{"traceparent":7}', '{"traceparent":"00-1-2-01"}', "{}"])
async def test_telemetry_of_another_form_is_passed_over(side: Side, worker: Worker, told: Told, metadata: str) -> None:
    await side("foreign", metadata)
    await until(lambda: [each for each in worker.told(JobSettled) if each.id == "foreign"], 60)
    assert parent_of(told.only("run media")) is None


async def test_what_we_write_is_what_the_propagator_of_node_writes(side: Side, server: Server, folder: Path) -> None:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="bull")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await store.jobs.enqueue([job("ours", trace=trace, queue="thumbs"), job("without", queue="media")])
    await side("add", "resize", "64")
    keys = ("thumbs:ours", "media:without", "media:from-node")
    ours, without, theirs = (json.loads(server.ask("HGET", f"bull:{key}", "opts")) for key in keys)
    assert json.loads(ours["tm"]) == {"traceparent": trace}
    assert "tm" not in without
    assert json.loads(theirs["tm"]).keys() == {"traceparent"}
    found = await store.jobs.get(["ours", "from-node"])
    assert [None if each is None else each.trace for each in found] == [trace, json.loads(theirs["tm"])["traceparent"]]
    await store.close()
