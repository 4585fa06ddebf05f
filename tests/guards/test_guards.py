"""metric and trace, the order in which guards stand, and what is refused where they are declared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards.rig import Guards, Point
from workfleet.errors import (
    MisplacedGuard,
    PayloadRejected,
    Skipped,
)
from workfleet.guards.declare import circuit_breaker, idempotent, locked, metric, trace
from workfleet.model.declared import Guarded

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
        (lambda: idempotent("a", ttl="0s"), "must be remembered for some time"),
        (lambda: circuit_breaker(threshold=0), "1 or more"),
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
