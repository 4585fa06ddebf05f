"""metric and trace, the order in which guards stand, and what is refused where they are declared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards.rig import Guards, Point
from workfleet.errors import (
    Cancel,
    Fail,
    MisplacedGuard,
    PayloadRejected,
    Retry,
    Skipped,
    Snooze,
)
from workfleet.guards.declare import circuit_breaker, idempotent, locked, metric, rate_limit, retry, timeout, trace
from workfleet.guards.metered import default_name
from workfleet.model.declared import Guarded, guards_of
from workfleet.model.policy import own_backoff
from workfleet.seednames import CircuitBreaker, Idempotent, Metric, Trace

# metric and trace


async def test_metric_counts_outcomes_and_measures() -> None:
    guards = await Guards.on_memory()

    @metric("images.resize")
    async def work(fail: bool) -> None:
        await guards.clock.sleep(0.25)
        if fail:
            raise ValueError

    call = guards.bind(work, ("fail",))
    for fail in (False, False, True):
        calling = asyncio.create_task(call(fail=fail))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await guards.move(0.25)
        await asyncio.wait([calling])
        assert (calling.exception() is not None) is fail
    samples = {(sample.name, *sample.labels): sample for sample in guards.metrics.snapshot()}
    assert samples["images_resize_calls_total", ("outcome", "completed")].value == 2
    assert samples["images_resize_calls_total", ("outcome", "failed")].value == 1
    assert samples["images_resize_duration_seconds",].value == pytest.approx(0.75)


def test_the_default_name_of_a_metric() -> None:
    assert default_name("ImageWorker.resize") == "image_worker.resize"
    assert default_name("HTTPClient.getURL2") == "http_client.get_url2"
    assert default_name("close_month") == "close_month"


async def test_metric_tells_decisions_from_failures() -> None:
    guards = await Guards.on_memory()

    @metric
    async def work(error: BaseException) -> None:
        raise error

    call = guards.bind(work, ("error",), label="ImageWorker.resize")
    for error in (Skipped("x"), Snooze("1s"), Cancel(), asyncio.CancelledError(), Retry(), Fail("x"), OSError()):
        with pytest.raises(type(error)):
            await call(error=error)
    counted = {
        labels: sample.value
        for sample in guards.metrics.snapshot()
        if (labels := dict(sample.labels).get("outcome")) and sample.name == "image_worker_resize_calls_total"
    }
    assert counted == {"skipped": 1, "snoozed": 1, "cancelled": 2, "retry": 1, "failed": 2}


async def test_trace_is_a_span_named_after_the_function() -> None:
    guards = await Guards.on_memory()

    @trace
    async def work() -> None:
        guards.spans.append("body")
        raise KeyError("x")

    with pytest.raises(KeyError):
        await guards.bind(work, ())()
    assert guards.spans == ["begin work", "body", "end work"]


async def test_top_is_outermost() -> None:
    guards = await Guards.on_memory()

    @trace
    @locked("a")
    @metric("x")
    async def work() -> None: ...

    async with guards.another().locks.lock("a"):
        with pytest.raises(Skipped):
            await guards.bind(work, ())()
    assert guards.spans == ["begin work", "end work"]  # the span saw the busy lock…
    assert guards.metrics.snapshot() == []  # …and the metric, inside the lock, saw no call


# Declaring


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: locked(" "), "cannot be empty"),
        (lambda: locked("a", on_busy="perhaps"), "it is 'skip', 'raise' or 'wait'"),  # type: ignore[arg-type]
        (lambda: locked("a", ttl="1"), "has no unit"),
        (lambda: idempotent("a", ttl="0s"), "it must be some time"),
        (lambda: circuit_breaker(threshold=0), "1 or more"),
        (lambda: idempotent("a", max_result="65MiB"), "it is 1B to 64MiB"),
        (lambda: idempotent("a", max_result="0B"), "it is 1B to 64MiB"),
        (lambda: circuit_breaker(threshold=True), "1 or more"),
        (lambda: circuit_breaker(reset_after="0s"), "it must be some time"),
        (lambda: circuit_breaker(window="0s"), "it must be some time"),
        (lambda: circuit_breaker(failure_rate=0.5), "give window= as well"),
        (lambda: circuit_breaker(window="1m", failure_rate=0), "a share above 0, up to 1"),
        (lambda: circuit_breaker(window="1m", failure_rate=1.1), "a share above 0, up to 1"),
        (lambda: circuit_breaker(scope="machine"), "it is 'process' or 'fleet'"),  # type: ignore[arg-type]
        (lambda: circuit_breaker(only=ValueError("x")), "it is an exception's class"),  # type: ignore[arg-type]
        (lambda: circuit_breaker(ignore=(OSError, "x")), "it is an exception's class"),  # type: ignore[arg-type]
        (lambda: circuit_breaker(fallback=0), "it is a function"),  # type: ignore[arg-type]
        (lambda: rate_limit(0, "1m"), "1 or more"),
        (lambda: rate_limit(1_000_001, "1m"), "1,000,000 at most"),
        (lambda: rate_limit(1, "0s"), "it must be some time"),
        (lambda: rate_limit(1, "1m", on_limit="skip"), "it is 'raise' or 'wait'"),  # type: ignore[arg-type]
        (lambda: rate_limit(1, "1m", scope="all"), "it is 'process' or 'fleet'"),  # type: ignore[arg-type]
        (lambda: retry(0), "1 or more"),
        (lambda: retry(2, backoff=own_backoff("mine")), "belongs to jobs"),
        (lambda: retry(2, backoff="1"), "has no unit"),
        (lambda: retry(2, on="OSError"), "it is an exception's class"),  # type: ignore[arg-type]
        (lambda: timeout("0s"), "it must be some time"),
        (lambda: trace(" "), "cannot be empty"),
        (lambda: metric("größe"), "ASCII letters"),
        (lambda: metric("9lives"), "no digit first"),
        (lambda: metric(""), "ASCII letters"),
    ],
)
def test_what_cannot_be_right_is_refused_when_it_is_written(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        (locked("{tenant}"), "names no parameter; there are job_id"),
        (idempotent("always the same"), "names no parameter, so it would be the same for every call"),
        (idempotent("{job_id"), "unmatched brace"),
    ],
)
async def test_a_key_that_names_no_parameter_is_refused(guard: Any, said: str) -> None:
    guards = await Guards.on_memory()

    @guard
    async def work(job_id: str) -> None: ...

    with pytest.raises(ValueError, match=said):
        guards.bind(work)


async def test_a_key_that_would_be_another_one_each_time_is_refused() -> None:
    guards = await Guards.on_memory()

    @idempotent("job_id")
    async def work(job_id: object) -> None: ...

    with pytest.raises(ValueError, match="is a Point: name a field of it"):
        await guards.bind(work)(job_id=Point(1))


async def test_a_result_type_that_cannot_be_kept_is_refused() -> None:
    guards = await Guards.on_memory()

    @idempotent("job_id")
    async def work(job_id: str) -> Any: ...

    with pytest.raises(PayloadRejected, match="result of work"):
        guards.bind(work, result=asyncio.Event)


def test_a_guard_without_a_declaration_cannot_be_called() -> None:
    @trace
    @locked("a")
    async def work() -> None: ...

    class Holder:
        @locked("a")
        def method(self) -> None: ...

    assert isinstance(work, Guarded)
    with pytest.raises(
        MisplacedGuard, match=r"work has a guard \(trace, locked\) but no @handler, @schedule or @public"
    ):
        work()  # type: ignore[unused-coroutine]
    with pytest.raises(MisplacedGuard, match="Put one of them on top"):
        Holder().method()


def test_the_old_spellings_are_ours() -> None:
    def spec(decorate: Any) -> object:
        async def work() -> None: ...

        return guards_of(decorate(work).fn)

    for old, new in (
        (CircuitBreaker(threshold=7, timeout="10s"), circuit_breaker(threshold=7, reset_after="10s")),
        (CircuitBreaker(timeout_ms=30_000, fallback=print), circuit_breaker(reset_after="30s", fallback=print)),
        (CircuitBreaker(), circuit_breaker(reset_after="1m")),
        (Idempotent(key="jobId", ttl="1h"), idempotent("jobId")),
        (Metric("images.resize"), metric("images.resize")),
        (Metric(), metric),
        (Trace, trace()),
    ):
        assert spec(old) == spec(new)
    with pytest.raises(TypeError, match="not both"):
        CircuitBreaker(timeout="1s", timeout_ms=1)
