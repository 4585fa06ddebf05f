"""Every name in the table of spans is told by some span, and no span tells another one."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.observe.spans import Told, installed, parent_of, said
from workfleet.events import Event
from workfleet.model.jobs import Enqueued, Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, RunPolicy, Settlement
from workfleet.observe.logs.context import job_fields
from workfleet.observe.trace import current_trace, remote_span, sender_of
from workfleet.observe.trace_calls import in_call
from workfleet.observe.trace_jobs import EnqueueSpans, RunSpans
from workfleet.observe.trace_names import SPANS

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PRODUCER, CONSUMER, CLIENT, SERVER = SPANS


def never(event: Event) -> None:
    raise AssertionError(event)


def record(**more: object) -> JobRecord:
    return JobRecord(id="j1", queue="media", name="resize", token="t", created_ms=1_000, started_ms=1_250, **more)  # type: ignore[arg-type]


def names(told: Told) -> set[str]:
    return {name for span in told.spans() for name in said(span)}


def test_an_enqueue_tells_all_of_its_names_and_no_other() -> None:
    with installed() as told:
        spans = EnqueueSpans(never)
        for answers in ([Enqueued("j1", True)], [Enqueued("j1", True), Enqueued("j2", True)]):
            jobs = [record() for _ in answers]
            opened = spans(jobs)
            assert opened is not None
            with opened as tell:
                tell(answers)
        opened = spans([record()])
        assert opened is not None
        with suppress(OSError), opened:
            raise OSError("down")
    assert names(told) == set(PRODUCER.attributes)
    assert {span.kind.name.lower() for span in told.spans()} == {PRODUCER.kind}
    assert {span.name for span in told.spans()} == {PRODUCER.name.replace("<queue>", "media")}


def test_a_run_tells_all_of_its_names_and_no_other() -> None:
    failed = Outcome(state=JobState.DELAYED, code="failed", delay_ms=7, failure=Failure("raised", "no", "OSError"))
    job = record(schedule="nightly", slot_ms=1_800_000_000_000, group="acme", due_ms=1_100, worker="w1")
    with installed() as told:
        begun = RunSpans(never, linked=False)(job, RunPolicy(attempts=4), None)
        assert begun is not None
        begun.end(Settlement(job.claim, failed))
    run = told.only("run media")
    assert set(said(run)) == set(CONSUMER.attributes)
    assert said(run)["messaging.client.id"] == "w1"
    assert (run.name, run.kind.name.lower()) == (CONSUMER.name.replace("<queue>", "media"), CONSUMER.kind)
    values = {
        name.removeprefix("workfleet."): value for name, value in said(run).items() if name.startswith("workfleet")
    }
    assert values == {
        "job.name": "resize", "job.attempt": 1, "job.max_attempts": 4, "job.wait_ms": 150, "job.group": "acme",
        "schedule.name": "nightly", "schedule.slot": "2027-01-15T08:00:00+00:00", "outcome": "failed",
        "retry.delay_ms": 7,
    }  # fmt: skip


def test_a_run_that_cannot_be_ended_ends_its_span_all_the_same() -> None:
    with installed() as told:
        begun = RunSpans(never, linked=False)(record(), RunPolicy(), ("shown", "name"))
        assert begun is not None
        begun.end(None)
    run = told.only("run shown")
    assert said(run)["workfleet.job.name"] == "name"
    assert "workfleet.outcome" not in said(run)


def test_housekeeping_has_no_spans() -> None:
    with installed() as told:
        assert RunSpans(never, linked=False)(record(housekeeping=True), RunPolicy(), None) is None
    assert told.spans() == []


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        "x",
        TRACE[:-1],
        TRACE + "0",
        TRACE.upper(),
        TRACE + "-more",
        TRACE.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        "\x1b[31m".ljust(len(TRACE), "x"),
    ],
)
def test_what_is_no_traceparent_makes_no_parent(sent: str | None) -> None:
    assert sender_of(sent) is None
    with installed() as told:
        begun = RunSpans(never, linked=False)(record(trace=sent), RunPolicy(), None)
        assert begun is not None
        begun.end(None)
    assert parent_of(told.only("run")) is None
    assert "trace_id" not in job_fields(record(trace=sent))


@pytest.mark.parametrize("more", ["", "-more"])
def test_a_later_version_is_read_as_far_as_it_is_known(more: str) -> None:
    """So says the standard of those who will write it."""
    sender = sender_of(TRACE.replace("00-", "01-", 1) + more)
    assert sender is not None
    assert sender == sender_of(TRACE)


def test_what_its_sender_has_not_sampled_is_not_sampled_here_nor_by_whom_it_calls() -> None:
    with installed() as told:
        begun = RunSpans(never, linked=False)(record(trace=f"{TRACE[:-2]}00"), RunPolicy(), None)
        assert begun is not None
        with remote_span("images.resize", {}) as call:
            sent = call.trace
        jobs = [record()]
        opened = EnqueueSpans(never)(jobs)
        assert opened is not None
        with opened as tell:
            tell([Enqueued("j1", True)])
        begun.end(None)
        assert sent is not None
        with in_call("images", "resize", sent):
            inside = current_trace()
    assert told.spans() == []
    for each in (sent, jobs[0].trace, inside):
        assert each is not None
        assert (each[:35], each[-3:]) == (TRACE[:35], "-00")


def test_without_an_sdk_the_fields_of_a_run_name_the_trace_of_who_enqueued() -> None:
    assert job_fields(record(trace=TRACE))["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    for none in (None, "x"):
        assert "trace_id" not in job_fields(record(trace=none))
