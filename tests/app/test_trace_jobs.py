"""An enqueue and each run are spans, in one trace, for whoever has configured an SDK; for nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from opentelemetry import trace as api

from tests.app.working import Worker, until
from tests.observe.spans import Broken, Told, id_of, installed, is_below, parent_of, said, trace_of
from workfleet import App, Fail, Job, JobType, NewJob, Retry, Snooze, trace
from workfleet.app.sync import SyncClient
from workfleet.errors import Skipped, StoreUnavailable
from workfleet.events import JobSettled, SubscriberFailed
from workfleet.model.jobs import JobState
from workfleet.observe import trace_jobs
from workfleet.observe.logs.context import context_fields

app = App("shop")
_ENDS = (JobState.COMPLETED, JobState.FAILED)
_SEEN: list[Any] = []
"""What the handlers saw; emptied before each test."""


@app.handler(queue="mails", attempts=2, backoff="10ms")
async def send(job: Job[str]) -> None:
    _SEEN.append(dict(context_fields()))
    with api.get_tracer("shop").start_as_current_span("smtp"):
        pass
    if job.data == "fail":
        raise LookupError("no such address")
    if job.data == "wait" and job.attempt == 1:
        raise Retry(after="1ms")


@app.handler(queue="mails")
def in_thread(job: Job[None]) -> None:
    with api.get_tracer("shop").start_as_current_span("smtp"):
        pass


@app.handler(queue="mails", attempts=1, timeout="10ms")
async def slow(job: Job[None]) -> None:
    await asyncio.Event().wait()


@app.handler(queue="mails", attempts=3)
async def decides(job: Job[str]) -> None:
    if job.data == "skip":
        raise Skipped("not today")
    if job.data == "fail":
        raise Fail("never")
    if not _SEEN:
        _SEEN.append("snoozed")
        raise Snooze("1ms")


@app.handler(queue="orders")
async def order(job: Job[None]) -> NewJob[None]:
    return send.job("a")


@app.handler(queue="mails")
@trace("inner")
async def guarded(job: Job[None]) -> None: ...


@app.schedule("tick", every="1h", run_on_start=True)
async def tick() -> None: ...


@pytest.fixture(autouse=True)
def fresh(project: object) -> None:
    _SEEN.clear()


@pytest.fixture
def told() -> Iterator[Told]:
    with installed() as told:
        yield told


def worker(**settings: Any) -> Worker:
    return Worker(app, **{"heartbeat_enabled": False, "scheduler_enabled": False, **settings})


async def finished(running: Worker, *jobs: NewJob[Any]) -> None:
    """Enqueue and wait until all have ended for good."""
    ids = {(await running.client.enqueue(job)).id for job in jobs}
    await until(lambda: ids <= {each.id for each in running.told(JobSettled) if each.state in _ENDS})


async def test_a_request_its_enqueue_and_the_run_are_one_trace(told: Told) -> None:
    async with worker() as running:
        with api.get_tracer("web").start_as_current_span("request"):
            await finished(running, send.job("a"))
    request, enqueue, run, smtp = (told.only(name) for name in ("request", "enqueue", "run", "smtp"))
    assert (enqueue.name, run.name) == ("enqueue mails", "run mails")
    assert (enqueue.kind, run.kind) == (api.SpanKind.PRODUCER, api.SpanKind.CONSUMER)
    assert is_below(enqueue, request)
    assert is_below(run, enqueue)
    assert is_below(smtp, run)
    common = {"messaging.system": "workfleet", "messaging.destination.name": "mails", "workfleet.job.name": "send"}
    job = said(enqueue)["messaging.message.id"]
    assert said(enqueue) == {
        **common, "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
        "messaging.message.id": job, "workfleet.job.created": True,
    }  # fmt: skip
    wait = said(run)["workfleet.job.wait_ms"]
    assert wait >= 0
    assert said(run) == {
        **common, "messaging.operation.name": "run", "messaging.operation.type": "process", "messaging.message.id": job,
        "messaging.client.id": "w1",
        "workfleet.job.attempt": 1, "workfleet.job.max_attempts": 2, "workfleet.job.wait_ms": wait,
        "workfleet.outcome": "completed",
    }  # fmt: skip
    assert {span.status.status_code for span in told.spans()} == {api.StatusCode.UNSET}
    assert _SEEN[0]["trace_id"] == trace_of(run)
    assert _SEEN[0]["span_id"] == id_of(run)


async def test_each_attempt_is_a_span_that_says_why_it_failed_and_when_it_is_tried_again(told: Told) -> None:
    async with worker() as running:
        await finished(running, send.job("fail"))
    enqueue, first, second = told.only("enqueue"), *told.spans("run")
    assert [said(run)["workfleet.job.attempt"] for run in (first, second)] == [1, 2]
    assert [said(run).get("workfleet.retry.delay_ms") for run in (first, second)] == [10, None]
    for run in (first, second):
        assert is_below(run, enqueue)
        assert run.status.status_code is api.StatusCode.ERROR
        assert run.status.description == "LookupError: no such address"
        assert (said(run)["error.type"], said(run)["workfleet.outcome"]) == ("LookupError", "failed")
        (event,) = run.events
        assert event.name == "exception"
        assert event.attributes is not None
        assert (event.attributes["exception.type"], event.attributes["exception.message"]) == (
            "LookupError", "no such address",
        )  # fmt: skip
        assert "in send" in str(event.attributes["exception.stacktrace"])


async def test_what_code_asks_for_is_an_outcome_and_no_error(told: Told) -> None:
    async with worker() as running:
        await finished(running, send.job("wait"))
        await finished(running, decides.job("skip"))
        _SEEN.clear()
        await finished(running, decides.job("snooze"))
    outcomes = [
        (said(run)["workfleet.outcome"], said(run).get("workfleet.retry.delay_ms")) for run in told.spans("run")
    ]
    assert outcomes == [("retry", 1), ("completed", None), ("skipped", None), ("snoozed", 1), ("completed", None)]
    assert {run.status.status_code for run in told.spans("run")} == {api.StatusCode.UNSET}
    assert [event for run in told.spans("run") for event in run.events] == []


async def test_a_timeout_and_a_failure_for_good_have_codes(told: Told) -> None:
    async with worker() as running:
        await finished(running, slow.job(None))
        await finished(running, decides.job("fail"))
    assert [said(run)["error.type"] for run in told.spans("run")] == ["timed_out", "failed"]
    assert [run.status.status_code for run in told.spans("run")] == [api.StatusCode.ERROR] * 2


async def test_a_cancelled_run_and_one_that_is_given_back_end_their_spans(told: Told) -> None:
    hangs = App("shop")
    begun = asyncio.Event()

    @hangs.handler(queue="mails")
    async def hang(job: Job[None]) -> None:
        begun.set()
        await asyncio.Event().wait()

    for end in ("cancelled", "given_back"):
        begun.clear()
        async with Worker(hangs, heartbeat_enabled=False, scheduler_enabled=False, stop_ms=1) as running:
            ref = await running.client.enqueue(hang.job(None))
            await begun.wait()
            if end == "cancelled":
                await running.client.jobs.cancel(ref.id)
                await until(lambda: running.told(JobSettled))
    assert [said(run)["workfleet.outcome"] for run in told.spans("run")] == ["cancelled", "given_back"]
    assert {run.status.status_code for run in told.spans("run")} == {api.StatusCode.UNSET}


async def test_code_in_a_thread_is_inside_the_span_of_its_run(told: Told) -> None:
    async with worker() as running:
        await finished(running, in_thread.job(None))
    assert is_below(told.only("smtp"), told.only("run"))


async def test_jobs_that_a_run_returns_go_on_in_its_trace(told: Told) -> None:
    async with worker() as running:
        await running.client.enqueue(order.job(None))
        await until(lambda: len(running.told(JobSettled)) == 2)
    assert is_below(told.only("run mails"), told.only("run orders"))


async def test_a_schedules_run_begins_a_trace_whoever_started_the_worker_or_added_the_schedule(told: Told) -> None:
    added = JobType("send", str, queue="mails")
    with api.get_tracer("cli").start_as_current_span("start"):
        async with worker(scheduler_enabled=True) as running:
            await running.client.schedules.add("added", added("a"), every="1h")
            record = (await running.store.schedules.get(["added"]))[0]
            await until(lambda: [each for each in running.told(JobSettled) if each.name == "tick"])
    assert record is not None
    assert record.job.trace is None
    (run,) = [span for span in told.spans("run shop-schedules") if said(span)["workfleet.job.name"] == "tick"]
    assert parent_of(run) is None
    assert trace_of(run) != trace_of(told.only("start"))
    assert said(run)["workfleet.schedule.name"] == "tick"


async def test_many_in_one_step_are_one_span_and_their_runs_are_below_it(told: Told) -> None:
    async with worker() as running:
        await running.client.enqueue_many([send.job("a"), in_thread.job(None), in_thread.job(None)])
        await until(lambda: len(running.told(JobSettled)) == 3)
        await running.client.enqueue_many([send.job("a"), order.job(None)])
        await until(lambda: len(running.told(JobSettled)) == 6)
    first, second = told.spans("enqueue")
    assert (first.name, second.name) == ("enqueue mails", "enqueue")
    assert [said(span)["messaging.batch.message_count"] for span in (first, second)] == [3, 2]
    assert "messaging.destination.name" not in said(second)
    assert "workfleet.job.name" not in said(first)
    assert len([run for run in told.spans("run") if is_below(run, first)]) == 3


async def test_an_enqueue_says_whether_the_job_was_there_and_what_went_wrong(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker() as running:
        running.runtime.exchange.pause()
        refs = [await running.client.enqueue(send.job("a", unique="{data}")) for _ in range(2)]
        assert [said(span)["workfleet.job.created"] for span in told.spans("enqueue")] == [True, False]
        assert {said(span)["messaging.message.id"] for span in told.spans("enqueue")} == {refs[0].id}
        told.forget()

        async def down(*_: Any, **__: Any) -> None:
            raise StoreUnavailable("memory", "down")

        monkeypatch.setattr(running.store.jobs, "enqueue", down)
        with pytest.raises(StoreUnavailable):
            await running.client.enqueue(send.job("a"))
    failed = told.only("enqueue")
    assert said(failed)["error.type"] == "store_unavailable"
    assert failed.status.status_code is api.StatusCode.ERROR
    assert [event.name for event in failed.events] == ["exception"]


def test_the_synchronous_client_enqueues_in_the_callers_trace(told: Told, tmp_path: Any) -> None:
    client = SyncClient(f"sqlite:///{tmp_path}/shop.db", app="shop")
    with api.get_tracer("web").start_as_current_span("request"):
        client.enqueue(JobType("send", str, queue="mails")("a"))
    client.close()
    assert is_below(told.only("enqueue"), told.only("request"))


async def test_linked_runs_have_a_trace_of_their_own_with_a_link(told: Told) -> None:
    async with worker(tracing={"runs": "linked"}) as running:
        await finished(running, send.job("a"))
    run, enqueue = told.only("run"), told.only("enqueue")
    assert parent_of(run) is None
    assert trace_of(run) != trace_of(enqueue)
    assert [f"{link.context.span_id:016x}" for link in run.links] == [id_of(enqueue)]


async def test_off_leaves_only_what_code_asks_for(told: Told) -> None:
    async with worker(tracing={"enabled": False}) as running:
        with api.get_tracer("web").start_as_current_span("request"):
            await finished(running, guarded.job(None))
        (record,) = await running.jobs(queue="mails")
    request, inner = told.only("request"), told.only("inner")
    assert told.spans() == [inner, request] or told.spans() == [request, inner]
    assert record.trace is not None
    assert is_below(inner, request)
    assert inner.kind is api.SpanKind.CONSUMER


async def test_a_trace_guard_is_a_part_of_its_run(told: Told) -> None:
    async with worker() as running:
        await finished(running, guarded.job(None))
    inner, run = told.only("inner"), told.only("run")
    assert is_below(inner, run)
    assert inner.kind is api.SpanKind.INTERNAL
    assert not [key for key in said(inner) if key.startswith("messaging.")]  # the run's span says it


@pytest.mark.parametrize("where", ["begin", "end"])
async def test_a_broken_processor_fails_no_enqueue_and_no_run(where: Literal["begin", "end"]) -> None:
    broken = Broken()
    plain = App("shop")

    @plain.handler(queue="mails")
    @trace("inner")
    async def work(job: Job[None]) -> str:
        return "done"

    with installed(broken):
        async with Worker(plain, heartbeat_enabled=False, scheduler_enabled=False) as running:
            broken.where = where
            ref = await running.client.enqueue(work.job(None))
            await until(lambda: running.told(JobSettled))
            assert await ref.result() == "done"
    failed = running.told(SubscriberFailed)
    assert {each.subscriber for each in failed} == {"OpenTelemetry"}
    assert len(failed) == 3
    assert f"the {where} of span inner" in [each.event for each in failed]


async def test_without_an_sdk_no_span_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("nobody looks at spans")

    monkeypatch.setattr(trace_jobs, "tracer", never)
    async with worker() as running:
        await finished(running, send.job("a"))
        assert not running.told(SubscriberFailed)
        (record,) = await running.jobs(queue="mails")
    assert (record.trace, record.state) == (None, JobState.COMPLETED)
    assert "trace_id" not in _SEEN[0]


PROGRAM = """
import asyncio, sys
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from workfleet import Client, JobType
from workfleet.observe.trace import provided

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))

async def main():
    async with Client(sys.argv[1], app="shop") as client:
        assert not provided()
        await client.enqueue(JobType("send", str, queue="mails")("a"))
        api.set_tracer_provider(provider)
        assert provided()
        await client.enqueue(JobType("send", str, queue="mails")("a"))
    print(*[span.name for span in exporter.get_finished_spans()])

asyncio.run(main())
"""


def test_an_sdk_that_is_configured_late_is_seen_at_once(tmp_path: Any) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path}/shop.db"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "enqueue mails\n"), ran.stderr


def test_a_provider_that_the_environment_names_is_loaded(tmp_path: Any) -> None:
    program = """
import asyncio, sys
from workfleet import Client
from workfleet.observe.trace import provided
async def main():
    async with Client(sys.argv[1], app="shop"): print(provided())
assert not provided()
asyncio.run(main())
"""
    named = {"OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"}
    for environ, answer in ((named, "True\n"), ({}, "False\n")):
        ran = subprocess.run(
            [sys.executable, "-c", program, f"sqlite:///{tmp_path}/shop.db"],
            capture_output=True, text=True, check=False, env=environ,
        )  # fmt: skip
        assert (ran.returncode, ran.stdout) == (0, answer), ran.stderr
