"""The supervisor's HTTP port: what it answers, and what it bears."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from workfleet.app.status import Status, SupervisorFacts, WorkerStatus
from workfleet.app.supervisor.http_port import Answer, HttpPort
from workfleet.app.supervisor.options import SupervisorOptions
from workfleet.app.supervisor.pages import pages_of
from workfleet.app.supervisor.run import Run
from workfleet.clock import SystemClock
from workfleet.events import Event, HttpListening, HttpUnavailable
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.supervision.control import Hello, HttpOrder
from workfleet.testing.clock import TestClock


def run_with(order: HttpOrder | None) -> Run:
    run = Run(SupervisorOptions(app="shop"), SystemClock(), print)
    run.greeted(
        Hello(
            worker_id="w", pid=1, app="shop", store="memory://", lease_ms=1, max_crashes=1, stuck_after_ms=1,
            shutdown_timeout_ms=1, status_file=None, http=order,
        )
    )  # fmt: skip
    return run


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.listening = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, HttpListening):
            self.listening.set()

    @property
    def port(self) -> int:
        (event,) = (each for each in self.events if isinstance(each, HttpListening))
        return int(event.address.rpartition(":")[2])


@asynccontextmanager
async def serving(pages: dict[str, Callable[[str], Answer]]) -> AsyncIterator[int]:
    heard = Heard()
    port = HttpPort(run_with(HttpOrder(port=0, host="127.0.0.1")), pages, clock=SystemClock(), publish=heard)
    task = asyncio.create_task(port.serve())
    try:
        async with asyncio.timeout(20):
            await heard.listening.wait()
        yield heard.port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(port: int, request: bytes) -> tuple[str, dict[str, str], str]:
    """Status line, headers and body."""
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        with suppress(ConnectionError):  # it may answer before it has read everything
            await writer.drain()
        said = (await reader.read()).decode()
        await close(writer)
    head, _, body = said.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def get(port: int, path: str) -> tuple[str, str]:
    first, _, body = await ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return first, body


def status(**facts: Any) -> Status:
    usual: dict[str, Any] = {
        "state": "ready", "ever_ready": True,
        "workers": [WorkerStatus(index=0, id="w0", pid=7, state="ready", store_ok_age_ms=1_000)],
    }  # fmt: skip
    supervisor = SupervisorFacts(1, "1", "b")
    return Status(
        app="shop", host="h", supervisor=supervisor, started_ms=1, written_ms=5, written_mono_ms=9, **(usual | facts)
    )


async def test_probes_answer_as_the_command_judges() -> None:
    now = status(state="starting", ever_ready=False, workers=[])
    async with serving(pages_of(lambda: now, lambda: ())) as port:
        assert await get(port, "/livez") == ("HTTP/1.1 200 OK", "live: ok\n")
        ready = "HTTP/1.1 503 Service Unavailable", "ready: the fleet is starting\n"
        assert await get(port, "/readyz") == ready
        assert (await get(port, "/startupz"))[0] == "HTTP/1.1 503 Service Unavailable"
        now = status()
        for path in ("/livez", "/readyz", "/startupz"):
            assert (await get(port, path))[0] == "HTTP/1.1 200 OK"
        ill = WorkerStatus(index=0, id="w0", pid=7, state="ready", store_ok_age_ms=1, unready=("pool a has failed",))
        now = status(workers=[ill])
        said = "ready: worker 0: pool a has failed"
        first, body = await get(port, "/readyz")
        assert (first, body.startswith(said)) == ("HTTP/1.1 503 Service Unavailable", True)
        assert (await get(port, "/livez"))[0] == "HTTP/1.1 200 OK"
        stuck = WorkerStatus(index=0, id="w0", pid=7, state="stuck")
        now = status(workers=[stuck])
        first, body = await get(port, "/livez")
        assert (first, "is stuck" in body) == ("HTTP/1.1 503 Service Unavailable", True)
        first, body = await get(port, "/readyz?verbose")
        assert json.loads(body.split("\n", 1)[1])["workers"][0]["state"] == "stuck"


async def test_metrics_are_read_by_a_parser() -> None:
    registry = MetricsRegistry()
    registry.counter("workfleet_test_total", 3, labels={"queue": 'a"b'})
    async with serving(pages_of(status, registry.snapshot)) as port:
        first, headers, body = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert (first, headers["Content-Type"]) == ("HTTP/1.1 200 OK", "text/plain; version=0.0.4; charset=utf-8")
    samples = [sample for family in text_string_to_metric_families(body) for sample in family.samples]
    assert [(each.name, each.labels, each.value) for each in samples] == [
        ("workfleet_test_total", {"queue": 'a"b'}, 3.0)
    ]


async def test_what_is_no_good_request_is_told_so() -> None:
    async with serving({"/livez": lambda query: Answer(200, "fine\n")}) as port:
        first, headers, body = await ask(port, b"HEAD /livez HTTP/1.1\r\n\r\n")
        assert (first, headers["Content-Length"], body) == ("HTTP/1.1 200 OK", "5", "")
        assert await get(port, "/x") == ("HTTP/1.1 404 Not Found", "there are /livez\n")
        first, headers, _ = await ask(port, b"POST /livez HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
        assert (first, headers["Allow"]) == ("HTTP/1.1 405 Method Not Allowed", "GET, HEAD")
        assert (await ask(port, b"nonsense\r\n\r\n"))[0] == "HTTP/1.1 400 Bad Request"
        assert (await ask(port, b"GET /livez HTTP/1.1\r\n" + b"a" * 70_000))[0].endswith("Too Large")
        assert await get(port, "/livez") == ("HTTP/1.1 200 OK", "fine\n")


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX: y\r\n"])
async def test_who_asks_is_answered_however_many_connections_are_open(sent: bytes) -> None:
    async with serving({"/livez": lambda query: Answer(200, "fine\n")}) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(600)]
        for _, writer in silent:
            writer.write(sent)
        assert await get(port, "/livez") == ("HTTP/1.1 200 OK", "fine\n")
        # The oldest have made room for it.
        with suppress(ConnectionError):
            async with asyncio.timeout(20):
                assert await silent[0][0].read() == b""
        for _, writer in silent:
            with suppress(ConnectionError):
                await close(writer)


@pytest.mark.full
async def test_one_who_sends_nothing_is_put_off() -> None:
    async with serving({"/livez": lambda query: Answer(200, "fine\n")}) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(30):
            assert await reader.read() == b""  # after five seconds
        await close(writer)


@pytest.mark.parametrize("request_", [b"\r\nGET /livez HTTP/1.1", b"GET http://h:8080/livez HTTP/1.1"])
async def test_other_forms_of_a_request(request_: bytes) -> None:
    async with serving({"/livez": lambda query: Answer(200, "fine\n")}) as port:
        assert (await ask(port, request_ + b"\r\n\r\n"))[0] == "HTTP/1.1 200 OK"


async def test_a_port_in_use_is_told_once_and_taken_when_it_is_free() -> None:
    clock, heard = TestClock(1_800_000_000_000), Heard()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        port = HttpPort(run_with(HttpOrder(port=taken, host="127.0.0.1")), {}, clock=clock, publish=heard)
        task = asyncio.create_task(port.serve())
        for _ in range(2):
            async with asyncio.timeout(20):
                while not clock.sleepers:
                    await asyncio.sleep(0)
            assert [type(event) for event in heard.events] == [HttpUnavailable]
            clock.move_to(clock.now_ms() + 5_000)
    async with asyncio.timeout(20):
        while not heard.listening.is_set():
            await asyncio.sleep(0)
            if clock.sleepers:
                clock.move_to(clock.now_ms() + 5_000)
    assert heard.port == taken
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_without_the_setting_no_port_is_opened() -> None:
    heard = Heard()
    async with asyncio.timeout(20):
        await HttpPort(run_with(None), {}, clock=SystemClock(), publish=heard).serve()
    assert heard.events == []
