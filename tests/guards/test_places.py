"""Each guard and each option has its effect in each of the three places: handlers, schedules, methods of a pool."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import pytest_asyncio
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.app.working import Worker, start_problems, write
from tests.guards.placing import PLACES, Site, program
from workfleet import App, Client, Job, circuit_breaker, handler, idempotent, process, public, retry, schedule, timeout
from workfleet.events import CallLimited, CallRetried, CircuitClosed, CircuitHalfOpened, CircuitOpened
from workfleet.observe.metrics.registry import MetricsRegistry

# One worker with its children serves all of them, so they share a loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / ".git").mkdir()
    write(folder, {"guarded_places": program()})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        yield folder
    # A process may be given this file's tests in two parts: each has a folder and a module of its own.
    sys.modules.pop("guarded_places", None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(folder: Path) -> AsyncIterator[Worker]:
    app = import_module("guarded_places").app
    async with Worker(app, locator="guarded_places:app", heartbeat_enabled=False) as worker:
        yield worker


@pytest.fixture(params=PLACES)
def site(request: pytest.FixtureRequest, worker: Worker, folder: Path) -> Site:
    return Site(request.param, worker, import_module("guarded_places"), folder)


@pytest.fixture
def methods(worker: Worker, folder: Path) -> Site:
    return Site("method", worker, import_module("guarded_places"), folder)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(api, "get_tracer", provider.get_tracer)
    return exporter


@process("wrong")
class WrongPool:
    @public
    @idempotent("tenant")
    def once(self, job_id: str) -> None: ...


# locked


async def test_locked_skips_or_raises_while_somebody_holds_the_lock(site: Site) -> None:
    client = await site.worker.get(Client)
    async with client.locks.lock("locked_skip"), client.locks.lock("locked_raise"):
        assert await site.run("locked_skip") == "skipped"
        assert await site.run("locked_raise") == "busy"
    assert [await site.run(name) for name in ("locked_skip", "locked_raise")] == ["ran", "ran"]
    assert site.calls("locked_skip") == site.calls("locked_raise") == 1


async def test_locked_waits(site: Site) -> None:
    client = await site.worker.get(Client)
    async with client.locks.lock("locked_wait"):
        running = asyncio.create_task(site.run("locked_wait"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(running), 0.3)
        assert site.calls("locked_wait") == 0
    assert await running == "ran"
    assert await client.locks.is_locked("locked_wait") == "no"


# metric and trace


async def test_metric_counts_under_its_name_or_the_functions(site: Site) -> None:
    registry = await site.worker.get(MetricsRegistry)
    for name in ("metric_bare", "metric_named"):
        assert await site.run(name) == "ran"
        site.breaks(name)
        assert await site.run(name) == "failed"
    owner = site.whole_name("").split(".")[1].lower()
    for metric in (f"{owner}_metric_bare", "shop_metric_named"):
        found = {(each.name, *each.labels): each.value for each in registry.snapshot() if each.name.startswith(metric)}
        assert found[f"{metric}_calls_total", ("outcome", "completed")] >= 1
        assert found[f"{metric}_calls_total", ("outcome", "failed")] >= 1
        assert found[f"{metric}_duration_seconds",] > 0


async def test_trace_is_a_span_of_its_name_or_the_functions(site: Site, spans: InMemorySpanExporter) -> None:
    assert await site.run("trace_bare", "x") == "ran"
    site.breaks("trace_named")
    assert await site.run("trace_named", "x") == "failed"
    bare, named = spans.get_finished_spans()
    assert (bare.name, named.name) == (site.whole_name("trace_bare").split(".", 1)[1], "shop trace_named")
    assert bare.attributes is not None
    assert bare.attributes["code.function.name"] == site.whole_name("trace_bare")
    assert (bare.status.status_code, named.status.status_code) == (api.StatusCode.UNSET, api.StatusCode.ERROR)
    assert [event.name for event in named.events] == ["exception"]
    assert named.attributes is not None
    assert named.attributes["error.type"] == "OSError"
    job = {key: value for key, value in bare.attributes.items() if key.startswith(("messaging", "workfleet"))}
    if site.place == "method":
        assert (bare.kind, job) == (api.SpanKind.INTERNAL, {})
        return
    assert bare.kind is api.SpanKind.CONSUMER
    assert (job["messaging.system"], job["messaging.operation.type"]) == ("workfleet", "process")
    queue = {"handler": "guarded", "schedule": "guarded-schedules"}[site.place]
    assert (job["messaging.destination.name"], job["workfleet.job.name"]) == (queue, "trace_bare")
    assert job["workfleet.job.attempt"] == 1
    assert job.get("workfleet.schedule.name") == (None if site.place == "handler" else "trace_bare")


async def test_the_span_of_a_run_belongs_to_the_trace_of_who_enqueued_it(
    worker: Worker, folder: Path, spans: InMemorySpanExporter
) -> None:
    site = Site("handler", worker, import_module("guarded_places"), folder)
    with api.get_tracer("test").start_as_current_span("request"):
        assert await site.run("trace_bare") == "ran"
    run, request = spans.get_finished_spans()
    assert run.parent is not None
    assert request.context is not None
    assert (run.parent.trace_id, run.parent.span_id) == (request.context.trace_id, request.context.span_id)


# circuit_breaker


async def test_a_circuit_opens_after_its_threshold(site: Site) -> None:
    site.breaks("opens")
    assert [await site.run("opens") for _ in range(4)] == ["failed", "failed", "refused", "refused"]
    assert "is open after repeated failures" in site.said
    assert site.calls("opens") == 2
    opened = [each for each in site.worker.told(CircuitOpened) if each.circuit == site.whole_name("opens")]
    assert [(each.scope, each.reset_after_ms) for each in opened] == [("process", 3_600_000)]


async def test_a_circuit_lets_a_probe_through_after_its_time(site: Site) -> None:
    site.breaks("resets")
    assert await site.run("resets") == "failed"
    site.mends("resets")
    await site.until_it_ran("resets")
    assert await site.run("resets") == "ran"
    for kind in (CircuitOpened, CircuitHalfOpened, CircuitClosed):
        assert sum(each.fields()["circuit"] == site.whole_name("resets") for each in site.worker.told(kind)) == 1


async def test_a_window_counts_failures_that_are_not_in_a_row(site: Site) -> None:
    came = []
    for name in ("window", "window", "rate", "rate"):
        came.append(await site.run(name))
        site.breaks(name)
        came.append(await site.run(name))
        site.mends(name)
    assert came == ["ran", "failed"] * 4
    assert await site.run("window") == "refused"
    site.breaks("rate")
    assert await site.run("rate") == "failed"  # 2 of 4 were below its rate; it is 3 of 5 now
    assert await site.run("rate") == "refused"


async def test_each_value_of_a_circuits_key_is_apart(site: Site) -> None:
    site.breaks("keyed")
    assert [await site.run("keyed", "a") for _ in range(2)] == ["failed", "refused"]
    if site.place == "schedule":
        assert f"{site.whole_name('keyed')} keyed" in site.said  # a schedule has one name
    else:
        assert await site.run("keyed", "b") == "failed"


async def test_which_exceptions_open_a_circuit(site: Site) -> None:
    for name, error, then in (("only", "ConnectionResetError", "KeyError"), ("ignore", "OSError", "KeyError")):
        site.breaks(name, then)
        assert [await site.run(name) for _ in range(2)] == ["failed", "failed"]
        site.breaks(name, error)
        assert [await site.run(name) for _ in range(2)] == ["failed", "refused"]


async def test_a_circuit_of_the_fleet_is_in_the_store(site: Site) -> None:
    assert await site.run("shared") == "ran"
    key = f"circuit {site.whole_name('shared')}"
    assert await site.worker.store.keys.get(key) is None
    site.breaks("shared")
    assert [await site.run("shared") for _ in range(2)] == ["failed", "refused"]
    stored = await site.worker.store.keys.get(key)
    assert stored is not None
    assert await site.worker.store.keys.delete(key, stored)  # as if another process had closed it
    site.mends("shared")
    assert await site.run("shared") == "ran"


async def test_a_fallback_answers_for_an_open_circuit(site: Site) -> None:
    site.breaks("fallback")
    assert await site.run("fallback") == "failed"  # and not for a call that fails
    assert await site.run("fallback") == "ran"
    assert site.said.strip('"') == "instead"
    assert site.calls("fallback") == 1


# rate_limit


async def test_a_rate_is_never_exceeded(site: Site) -> None:
    assert [await site.run("limit") for _ in range(3)] == ["ran", "ran", "refused"]
    assert "is at its limit of 2 calls in 3600 s" in site.said
    assert site.calls("limit") == 2
    limited = [each for each in site.worker.told(CallLimited) if each.name == site.whole_name("limit")]
    assert len(limited) == 1
    if site.record is not None:  # a run is put off, which is no attempt
        assert (site.record.state.value, site.record.attempts_made) == ("delayed", 0)


async def test_a_rate_lets_calls_through_again_after_its_time(site: Site) -> None:
    assert await site.run("per") == "ran"
    await site.until_it_ran("per")


async def test_each_value_of_a_rates_key_is_apart(site: Site) -> None:
    assert [await site.run("limit_keyed", "a") for _ in range(2)] == ["ran", "refused"]
    if site.place == "schedule":
        assert f"{site.whole_name('limit_keyed')} limit_keyed" in site.said
    else:
        assert await site.run("limit_keyed", "b") == "ran"


async def test_a_rate_can_be_waited_for(site: Site) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await asyncio.gather(*(site.run("limit_waits") for _ in range(4))) == ["ran"] * 4
    assert loop.time() - began > 0.14  # three waits of 50 ms, less what rounding takes


async def test_a_rate_of_the_fleet_is_in_the_store(site: Site) -> None:
    assert [await site.run("limit_shared") for _ in range(2)] == ["ran", "refused"]
    assert await site.worker.store.keys.get(f"rate {site.whole_name('limit_shared')}") is not None


# idempotent


async def test_a_repeat_gets_the_first_result(site: Site) -> None:
    for name in ("once", "once_braces"):
        assert [await site.run(name) for _ in range(3)] == ["ran"] * 3
        assert f"{site.place}.{name} of" in site.said
        assert site.calls(name) == 1
        if site.place != "schedule":
            assert await site.run(name, "another") == "ran"
            assert site.calls(name) == 2


async def test_concurrent_repeats_share_one_run(site: Site) -> None:
    site.holds("once_shared")
    calling = [asyncio.create_task(site.run("once_shared")) for _ in range(4)]
    await site.until_begun("once_shared", 4)
    assert site.calls("once_shared") == 1
    site.lets_go("once_shared")
    assert await asyncio.gather(*calling) == ["ran"] * 4
    assert site.calls("once_shared") == 1


async def test_a_failure_is_not_remembered(site: Site) -> None:
    site.breaks("once_fails")
    assert await site.run("once_fails") == "failed"
    site.mends("once_fails")
    assert [await site.run("once_fails") for _ in range(2)] == ["ran", "ran"]
    assert site.calls("once_fails") == 2


async def test_a_result_is_forgotten_after_its_time(site: Site) -> None:
    async with asyncio.timeout(30):
        while site.calls("once_ttl") < 2:
            assert await site.run("once_ttl") == "ran"


async def test_a_result_that_is_too_large_is_refused_with_the_reason(site: Site) -> None:
    assert await site.run("once_large") == "failed"
    assert "bytes of JSON cannot be remembered, max_result is 10" in site.said


# retry and timeout, of methods


async def test_retry_repeats_a_methods_call(methods: Site) -> None:
    methods.breaks("retried")
    assert await methods.run("retried") == "failed"
    assert methods.calls("retried") == 3
    told = [each for each in methods.worker.told(CallRetried) if each.name == "Methods.retried"]
    assert [each.attempt for each in told] == [1, 2]
    methods.breaks("retried_on", "KeyError")
    assert (await methods.run("retried_on"), methods.calls("retried_on")) == ("failed", 1)
    methods.breaks("retried_on", "ConnectionResetError")
    assert (await methods.run("retried_on"), methods.calls("retried_on")) == ("failed", 3)


async def test_timeout_ends_a_methods_call_and_the_process_that_works_on_it(methods: Site) -> None:
    assert await methods.run("timed") == "ran"
    methods.holds("timed")
    assert await methods.run("timed") == "failed"
    assert "Methods.timed did not end within 0.3 s" in methods.said
    methods.lets_go("timed")
    await methods.until_it_ran("timed")
    first, held, *others = methods.pids("timed")
    assert first == held
    assert others
    assert held not in others


async def test_a_timeout_above_a_retry_is_of_all_calls(methods: Site) -> None:
    methods.breaks("above")
    assert await methods.run("above") == "failed"
    assert "did not end within 0.3 s" in methods.said
    assert 1 < methods.calls("above") < 1000


async def test_on_a_handler_or_schedule_they_are_start_up_errors() -> None:
    class Wrong:
        @handler()
        @retry(3)
        async def again(self, job: Job[None]) -> None: ...

        @schedule(every="1h")
        @timeout("5s")
        async def late(self) -> None: ...

    found = await start_problems(App("shop", jobs=[Wrong]), heartbeat_enabled=False)
    said = {name.rpartition(".")[2]: text for name, text in found.items()}
    assert "a handler or schedule says attempts=, backoff= and retry=" in said["again"]
    assert "a handler or schedule says timeout=" in said["late"]


async def test_what_cannot_be_filled_is_a_start_up_error() -> None:
    class Wrong:
        @handler()
        @circuit_breaker(fallback=lambda tenant: tenant)
        async def unanswered(self, job: Job[None]) -> None: ...

        @handler()
        @circuit_breaker(key="{tenant}")
        async def unkeyed(self, job: Job[None]) -> None: ...

    found = await start_problems(App("shop", jobs=[Wrong]), heartbeat_enabled=False)
    said = {name.rpartition(".")[2]: text for name, text in found.items()}
    assert "has a parameter 'tenant', which the call has not; there are job" in said["unanswered"]
    assert "names no parameter; there are job" in said["unkeyed"]
    found = await start_problems(App("shop", jobs=[WrongPool]), heartbeat_enabled=False)
    assert "names no parameter" in "".join(found.values())
