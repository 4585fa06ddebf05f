"""A call of a pool goes on in the trace of who made it, in a child that has an SDK of its own, and in one that has
none."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from opentelemetry import trace as api

from tests.app.working import Worker, until, write
from tests.observe.spans import Broken, Told, id_of, installed, is_below, parent_of, said, trace_of
from workfleet.errors import ChildDied
from workfleet.events import ChildPrinted, SubscriberFailed
from workfleet.pools.registry import Pools

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROGRAM = """
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator

from opentelemetry import trace

from workfleet import App, Job, Module, handler, on_start, process, public, queue
from workfleet.pools.child_context import current


class Methods:
    @public
    def resize(self, width: int) -> str:
        with trace.get_tracer("images").start_as_current_span("own"):
            return current().facts.get("traceparent", "")

    @public
    async def fetch(self) -> str:
        with trace.get_tracer("images").start_as_current_span("own"):
            return current().facts.get("traceparent", "")

    @public
    def pages(self) -> Iterator[int]:
        for page in range(2):
            with trace.get_tracer("images").start_as_current_span("own"):
                yield page

    @public
    async def parts(self) -> AsyncIterator[int]:
        for part in range(2):
            with trace.get_tracer("images").start_as_current_span("own"):
                yield part

    @public
    def fails(self) -> None:
        raise LookupError("no such image")


@process("images", size=1, monitoring={"tracing": True})
class Images(Methods):
    @on_start
    def configure(self) -> None:
        import tests.observe.child_sdk

    @public
    def dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@process("plain", size=1)
class Plain(Methods):
    @on_start
    def configure(self) -> None:
        import tests.observe.child_sdk


@process("bare", size=1, monitoring={"tracing": True})
class Bare(Methods):
    @public
    def sdk(self) -> bool:
        return "opentelemetry.sdk" in sys.modules


@process("shaky", size=1, monitoring={"tracing": True})
class Shaky:
    @on_start
    def configure(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from tests.observe.spans import Broken

        provider = TracerProvider()
        provider.add_span_processor(Broken("end"))
        trace.set_tracer_provider(provider)

    @public
    def answers(self) -> int:
        return 7


@process("threads", size=1, isolation="thread", monitoring={"tracing": True})
class Threads(Methods): ...


@process("inline", size=1, isolation="inline", monitoring={"tracing": True})
class Inline(Methods): ...


@queue("media")
class Media:
    @handler(pool="images")
    def in_child(self, job: Job[None]) -> str:
        with trace.get_tracer("images").start_as_current_span("own"):
            return job.id


app = App("shop", modules=[Module("media", jobs=[Media, Images, Plain, Bare, Shaky, Threads, Inline])])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("traced")
    (folder / ".git").mkdir()
    write(folder, {"traced_media": PROGRAM})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        patch.setenv("TRACED_TO", str(folder / "spans.jsonl"))
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(folder: Path) -> AsyncIterator[Worker]:
    app = import_module("traced_media").app
    async with Worker(app, locator="traced_media:app", heartbeat_enabled=False, scheduler_enabled=False) as worker:
        yield worker


@pytest.fixture
def told() -> Iterator[Told]:
    with installed() as told:
        yield told


@pytest.fixture
def children(folder: Path) -> Children:
    (folder / "spans.jsonl").write_text("")
    return Children(folder / "spans.jsonl")


class Children:
    """What the children's own exporters have written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def spans(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def only(self, name: str) -> dict[str, Any]:
        (span,) = [span for span in self.spans() if span["name"] == name]
        return span


def id_in(span: dict[str, Any]) -> str:
    return str(span["context"]["span_id"]).removeprefix("0x")


def trace_in(span: dict[str, Any]) -> str:
    return str(span["context"]["trace_id"]).removeprefix("0x")


def parent_in(span: dict[str, Any]) -> str:
    return str(span["parent_id"]).removeprefix("0x")


async def proxy(worker: Worker, name: str) -> Any:
    return await (await worker.get(Pools)).pool(getattr(import_module("traced_media"), name))


async def used(proxy: Any, method: str) -> None:
    if method in ("pages", "parts"):
        assert [item async for item in getattr(proxy, method)()] == [0, 1]
    else:
        await getattr(proxy, method)(*([7] if method == "resize" else []))


@pytest.mark.parametrize("method", ["resize", "fetch", "pages", "parts"])
async def test_a_call_is_a_span_here_and_one_in_the_child_with_the_methods_own_below(
    worker: Worker, told: Told, children: Children, method: str
) -> None:
    images = await proxy(worker, "Images")
    with api.get_tracer("web").start_as_current_span("request"):
        await used(images, method)
    call, request = told.only("images."), told.only("request")
    assert (call.name, call.kind) == (f"images.{method}", api.SpanKind.CLIENT)
    assert is_below(call, request)
    there = children.only(f"images.{method}")
    assert (there["kind"], parent_in(there), trace_in(there)) == ("SpanKind.SERVER", id_of(call), trace_of(request))
    pid = said(call)["workfleet.child.pid"]
    assert pid != os.getpid()
    facts = {"workfleet.pool": "images", "workfleet.method": method, "workfleet.child.pid": pid}
    assert there["attributes"] == said(call) == facts
    own = [span for span in children.spans() if span["name"] == "own"]
    assert len(own) == (2 if method in ("pages", "parts") else 1)
    assert {(trace_in(span), parent_in(span)) for span in own} == {(trace_of(request), id_in(there))}


async def test_a_failed_call_is_an_error_in_both_processes(worker: Worker, told: Told, children: Children) -> None:
    with pytest.raises(LookupError):
        await (await proxy(worker, "Images")).fails()
    call, there = told.only("images.fails"), children.only("images.fails")
    assert parent_of(call) is None
    assert said(call)["error.type"] == there["attributes"]["error.type"] == "LookupError"
    assert call.status.status_code is api.StatusCode.ERROR
    assert there["status"] == {"status_code": "ERROR", "description": "LookupError: no such image"}
    assert [event["name"] for event in there["events"]] == ["exception"]


async def test_a_call_whose_child_dies_ends_its_span_here(worker: Worker, told: Told, children: Children) -> None:
    with pytest.raises(ChildDied):
        await (await proxy(worker, "Images")).dies()
    assert said(told.only("images.dies"))["error.type"] == "child_died"
    assert children.spans() == []


async def test_without_the_option_only_the_context_travels(worker: Worker, told: Told, children: Children) -> None:
    plain = await proxy(worker, "Plain")
    with api.get_tracer("web").start_as_current_span("request"):
        await plain.resize(7)
    request = told.only("request")
    assert told.spans() == [request]
    (own,) = children.spans()
    assert (own["name"], parent_in(own), trace_in(own)) == ("own", id_of(request), trace_of(request))


async def test_a_child_without_an_sdk_knows_the_trace_and_loads_nothing(worker: Worker, told: Told) -> None:
    bare = await proxy(worker, "Bare")
    with api.get_tracer("web").start_as_current_span("request"):
        sent = await bare.resize(7)
        assert await bare.sdk() is False
    assert sent.split("-")[1:3] == [trace_of(told.only("request")), id_of(told.only("bare.resize"))]


@pytest.mark.parametrize("kind", ["Threads", "Inline"])
@pytest.mark.parametrize("method", ["resize", "fetch", "pages", "parts"])
async def test_children_of_this_process_have_its_sdk(worker: Worker, told: Told, kind: str, method: str) -> None:
    await used(await proxy(worker, kind), method)
    there, call = told.spans(f"{kind.lower()}.")
    assert (there.kind, call.kind) == (api.SpanKind.SERVER, api.SpanKind.CLIENT)
    assert is_below(there, call)
    assert all(is_below(own, there) for own in told.spans("own"))
    assert len(told.spans("own")) == (2 if method in ("pages", "parts") else 1)


@pytest.mark.parametrize("where", ["begin", "end"])
async def test_a_broken_processor_fails_no_call(
    worker: Worker, children: Children, where: Literal["begin", "end"]
) -> None:
    with installed(Broken(where)):
        await used(await proxy(worker, "Images"), "resize")
    assert f"the {where} of span images.resize" in [each.event for each in worker.told(SubscriberFailed)]


@pytest.mark.full
async def test_a_broken_processor_in_a_child_fails_no_call(worker: Worker, told: Told) -> None:
    assert await (await proxy(worker, "Shaky")).answers() == 7
    assert told.only("shaky.answers").status.is_unset
    said = "OpenTelemetry failed on the end of span shaky.answers: OSError: no exporter"
    await until(lambda: [each for each in worker.told(ChildPrinted) if said in each.line])


async def test_a_handler_in_a_pool_goes_on_in_the_trace_of_its_run(
    worker: Worker, told: Told, children: Children
) -> None:
    ref = await worker.client.enqueue(import_module("traced_media").Media.in_child.job(None))
    assert await ref.result() == ref.id
    enqueue, run, call = told.only("enqueue"), told.only("run media"), told.only("images.")
    assert is_below(run, enqueue)
    assert is_below(call, run)
    (there,) = [span for span in children.spans() if span["name"] == call.name]
    own = children.only("own")
    assert (trace_in(own), parent_in(own), parent_in(there)) == (trace_of(enqueue), id_in(there), id_of(call))


async def test_without_an_sdk_calls_bring_no_trace_along(worker: Worker, children: Children) -> None:
    assert await (await proxy(worker, "Images")).resize(7) == ""
    assert [span["name"] for span in children.spans()] == ["own"]  # the child's own SDK, a trace of its own
