"""What each guard does around a call, and in which order they stand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct

from tests.guards.rig import FaultyKeys, Guards
from workfleet.errors import (
    CircuitOpen,
    Fail,
    LockBusy,
    LockLost,
    MisplacedGuard,
    PayloadRejected,
    Retry,
    Skipped,
    Snooze,
    StoreUnavailable,
)
from workfleet.events import LockBusySkipped, StoreTrouble
from workfleet.guards.declare import circuit_breaker, idempotent, locked, metric, trace
from workfleet.model.declared import Guarded


class Point(Struct):
    x: int


# locked


async def test_locked_skips_while_somebody_holds_the_lock() -> None:
    guards = await Guards.on_memory()
    ran: list[str] = []

    @locked("ledger:{job_id}")
    async def work(job_id: str) -> str:
        ran.append(job_id)
        return "done"

    ours = guards.bind(work)
    async with guards.another().locks.lock("ledger:a"):
        with pytest.raises(Skipped, match=r"lock 'ledger:a' is held by worker-2"):
            await ours(job_id="a")
        assert await ours(job_id="b") == "done"
    assert await ours(job_id="a") == "done"
    assert ran == ["b", "a"]
    (told,) = [event for event in guards.events if isinstance(event, LockBusySkipped)]
    assert (told.lock, told.holder, told.name) == ("ledger:a", "worker-2", "work")


async def test_locked_raise_tries_as_often_as_the_module_says() -> None:
    guards = await Guards.on_memory()

    @locked("a", on_busy="raise")
    async def work() -> None: ...

    async with guards.another().locks.lock("a", ttl="1h"):
        calling = asyncio.create_task(guards.bind(work, ())())  # type: ignore[arg-type]
        await guards.move(0.25)
        assert not calling.done()  # one retry, about a second later
        await guards.move(2)
        with pytest.raises(LockBusy):
            await calling


async def test_locked_wait_waits_for_its_turn() -> None:
    guards = await Guards.on_memory()

    @locked("a", on_busy="wait")
    async def work() -> str:
        return "done"

    async with guards.another().locks.lock("a"):
        calling = asyncio.create_task(guards.bind(work, ())())  # type: ignore[arg-type]
        await guards.move(120)
        assert not calling.done()
    await guards.move(1)
    assert await calling == "done"


async def test_a_busy_lock_of_the_body_itself_is_not_taken_for_the_guards() -> None:
    guards = await Guards.on_memory()

    @locked("outer")
    async def work() -> None:
        raise LockBusy("inner", "somebody")

    with pytest.raises(LockBusy, match="inner"):
        await guards.bind(work, ())()
    assert await guards.locks.list() == []


async def test_locked_renews_and_a_lost_lock_ends_the_call() -> None:
    guards = await Guards.on_memory()

    @locked("a", ttl="3s")
    async def work() -> None:
        await asyncio.Event().wait()

    calling = asyncio.create_task(guards.bind(work, ())())  # type: ignore[arg-type]
    await guards.move(30)
    assert [grant.name for grant in await guards.locks.list()] == ["lock:a"]
    assert await guards.another().locks.release("a")
    await guards.move(2)
    with pytest.raises(LockLost):
        await calling


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError(), SystemExit(1)])
async def test_locked_frees_the_lock_whatever_the_call_raises(error: BaseException) -> None:
    guards = await Guards.on_memory()

    @locked("a")
    async def work() -> None:
        raise error

    with pytest.raises(type(error)):
        await guards.bind(work, ())()
    assert await guards.locks.list() == []


# idempotent


async def test_a_repeat_gets_the_first_result_in_its_type() -> None:
    guards = await Guards.on_memory()
    runs: list[str] = []

    def of(result: Any, value: object) -> Any:
        @idempotent("job_id", ttl="1h")
        async def work(job_id: str) -> object:
            runs.append(job_id)
            return value

        return guards.bind(work, result=result)

    for number, (hint, value) in enumerate(
        [(bytes, b"\x00\xff"), (Point, Point(3)), (None, None), (Any, {"a": [1]}), (list[Point], [Point(1)])]
    ):
        call = of(hint, value)
        assert await call(job_id=str(number)) == value
        assert await call(job_id=str(number)) == value
        assert await guards.another().bind(work_of(value), result=hint)(job_id=str(number)) == value
    assert runs == ["0", "1", "2", "3", "4"]


def work_of(value: object) -> Any:
    """The same function in another process: a second run would give something else."""

    @idempotent("job_id", ttl="1h")
    async def work(job_id: str) -> object:
        raise AssertionError(f"{job_id} was run again, instead of remembering {value!r}")

    return work


async def test_the_result_is_forgotten_after_its_time() -> None:
    guards = await Guards.on_memory()
    runs: list[int] = []

    @idempotent("job_id", ttl="10m")
    async def work(job_id: str) -> int:
        runs.append(1)
        return len(runs)

    call = guards.bind(work, result=int)
    assert await call(job_id="a") == 1
    await guards.move(599)
    assert await call(job_id="a") == 1
    await guards.move(2)
    assert await call(job_id="a") == 2


async def test_concurrent_calls_run_once_and_all_get_the_result() -> None:
    guards = await Guards.on_memory()
    runs, go_on = list[int](), asyncio.Event()

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        runs.append(1)
        await go_on.wait()
        return "first"

    calls = [guards.bind(work), guards.another().bind(work)] * 25
    waiting = [asyncio.create_task(call(job_id="a")) for call in calls]  # type: ignore[arg-type,var-annotated]
    await guards.move(300)  # far longer than a killed call's key lives: it is renewed
    assert not any(task.done() for task in waiting)
    go_on.set()
    await guards.move(2)
    assert [await task for task in waiting] == ["first"] * 50
    assert runs == [1]


@pytest.mark.parametrize("error", [ValueError("x"), Retry(), Snooze("1s"), Skipped("no"), asyncio.CancelledError()])
async def test_a_failure_is_not_remembered(error: BaseException) -> None:
    guards = await Guards.on_memory()
    fail = True

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        if fail:
            raise error
        return "second"

    call = guards.bind(work)
    with pytest.raises(type(error)):
        await call(job_id="a")
    fail = False
    assert await call(job_id="a") == "second"


async def test_a_killed_owner_frees_its_key_in_a_minute() -> None:
    guards = await Guards.on_memory()
    killed = asyncio.Event()

    @idempotent("job_id")
    async def hangs(job_id: str) -> None:
        killed.set()
        await asyncio.Event().wait()

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        return "again"

    hangs.fn.__name__ = "work"  # type: ignore[attr-defined]
    dying = guards.another()
    lost = asyncio.create_task(dying.bind(hangs)(job_id="a"))  # type: ignore[arg-type]
    await killed.wait()
    dying.keys.down = {"replace", "delete"}  # as good as gone: it renews nothing and gives nothing back
    waiting = asyncio.create_task(guards.bind(work)(job_id="a"))  # type: ignore[arg-type]
    await guards.move(58)
    assert not waiting.done()
    await guards.move(4)
    assert await waiting == "again"
    lost.cancel()
    await asyncio.wait([lost])


async def test_a_result_that_cannot_be_kept_fails_for_good_and_is_not_remembered() -> None:
    guards = await Guards.on_memory()
    runs: list[int] = []

    @idempotent("job_id")
    async def work(job_id: str) -> object:
        runs.append(1)
        return object() if len(runs) == 1 else "fine"

    call = guards.bind(work)
    with pytest.raises(Fail, match=r"result of work: .*object"):
        await call(job_id="a")
    assert await call(job_id="a") == "fine"


async def test_an_outage_after_the_work_does_not_fail_it() -> None:
    guards = await Guards.on_memory()

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        guards.keys.down = {"replace"}
        return "done"

    calling = asyncio.create_task(guards.bind(work)(job_id="a"))  # type: ignore[arg-type]
    await guards.move(5)
    assert await calling == "done"
    (told,) = [event for event in guards.events if isinstance(event, StoreTrouble)]
    assert told.what == "remembering the result of work"


async def test_an_outage_before_the_work_fails_the_call_and_an_outage_at_its_failure_hides_nothing() -> None:
    guards = await Guards.on_memory()

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        raise ValueError("its own")

    call = guards.bind(work)
    guards.keys.down = {"put_if_absent"}
    with pytest.raises(StoreUnavailable):
        await call(job_id="a")
    guards.keys.down = {"delete"}
    with pytest.raises(ValueError, match="its own"):
        await call(job_id="a")


async def test_a_renewal_that_fails_is_tried_again() -> None:
    guards = await Guards.on_memory()
    go_on = asyncio.Event()

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        await go_on.wait()
        return "done"

    calling = asyncio.create_task(guards.bind(work)(job_id="a"))  # type: ignore[arg-type]
    await guards.move(15)
    guards.keys.down = {"replace"}
    await guards.move(20)
    guards.keys.down = set()
    await guards.move(60)
    other = FaultyKeys(guards.store.keys)
    assert await other.put_if_absent("idempotent work a", b"x", 1_000) is not None
    go_on.set()
    await guards.move(1)
    assert await calling == "done"


# circuit_breaker


class Remote:
    """Something that is called through a breaker."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> str:
        self.calls += 1
        gate, error = self.gate, self.error
        if gate is not None:
            await gate.wait()
        if error is not None:
            raise error
        return "ok"


async def breaker(threshold: int = 3) -> tuple[Guards, Remote, Any]:
    guards, remote = await Guards.on_memory(), Remote()

    @circuit_breaker(threshold=threshold, reset_after="30s")
    async def work() -> str:
        return await remote()

    return guards, remote, guards.bind(work, ())


async def fails(call: Any, times: int) -> None:
    for _ in range(times):
        with pytest.raises(OSError, match="down"):
            await call()


async def test_it_opens_after_failures_in_a_row() -> None:
    _, remote, call = await breaker()
    remote.error = OSError("down")
    await fails(call, 2)
    remote.error = None
    assert await call() == "ok"  # a success begins the count anew
    remote.error = OSError("down")
    await fails(call, 3)
    with pytest.raises(CircuitOpen, match="circuit 'work' is open after repeated failures; try again in 30 s"):
        await call()
    assert remote.calls == 6


async def test_half_open_lets_one_call_through() -> None:
    guards, remote, call = await breaker()
    remote.error = OSError("down")
    await fails(call, 3)
    await guards.move(29)
    with pytest.raises(CircuitOpen) as open_:
        await call()
    assert open_.value.retry_after_ms == 1_000
    await guards.move(1)
    remote.error, remote.gate = None, asyncio.Event()
    probe = asyncio.create_task(call())
    await asyncio.sleep(0)
    with pytest.raises(CircuitOpen):
        await call()  # one at a time
    remote.gate.set()
    assert await probe == "ok"
    remote.gate = None
    assert [await call() for _ in range(3)] == ["ok"] * 3
    assert remote.calls == 3 + 1 + 3


async def test_a_probe_that_fails_opens_it_again() -> None:
    guards, remote, call = await breaker()
    remote.error = OSError("down")
    await fails(call, 3)
    await guards.move(30)
    await fails(call, 1)
    with pytest.raises(CircuitOpen) as open_:
        await call()
    assert open_.value.retry_after_ms == 30_000


@pytest.mark.parametrize("error", [Retry(), Snooze("1s"), Fail("x"), Skipped("x"), asyncio.CancelledError()])
async def test_what_is_said_on_purpose_neither_opens_nor_closes(error: BaseException) -> None:
    guards, remote, call = await breaker()
    remote.error = error
    for _ in range(5):
        with pytest.raises(type(error)):
            await call()
    remote.error = OSError("down")
    await fails(call, 3)
    await guards.move(30)
    remote.error = error
    with pytest.raises(type(error)):
        await call()  # the probe told nothing…
    remote.error = None
    assert await call() == "ok"  # …so the next call is one


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()])
async def test_a_probe_that_exits_does_not_leave_it_open_for_ever(error: BaseException) -> None:
    guards, remote, call = await breaker(threshold=1)
    remote.error = OSError("down")
    await fails(call, 1)
    await guards.move(30)
    remote.error = error
    with pytest.raises(type(error)):
        await call()
    with pytest.raises(CircuitOpen):
        await call()  # it has failed like any other…
    await guards.move(30)
    remote.error = None
    assert await call() == "ok"  # …and the next one is the next probe


async def test_calls_that_began_before_it_opened_say_nothing_of_now() -> None:
    guards, remote, call = await breaker(threshold=1)
    remote.gate = asyncio.Event()
    early_success = asyncio.create_task(call())
    await asyncio.sleep(0)
    remote.error = ValueError("late failure")
    early_failure = asyncio.create_task(call())
    await asyncio.sleep(0)
    gate, remote.gate, remote.error = remote.gate, None, OSError("down")
    await fails(call, 1)
    await guards.move(29)
    gate.set()
    assert await early_success == "ok"
    with pytest.raises(ValueError, match="late failure"):
        await early_failure
    with pytest.raises(CircuitOpen) as open_:
        await call()  # the success has not closed it…
    assert open_.value.retry_after_ms == 1_000  # …and the failure has not prolonged it


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
