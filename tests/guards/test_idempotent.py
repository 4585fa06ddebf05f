"""idempotent: a repeat gets the first result, a failure is not remembered, an outage fails no work that is done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards.rig import FaultyKeys, Guards, Point
from workfleet.errors import (
    Fail,
    Retry,
    Skipped,
    Snooze,
    StoreUnavailable,
)
from workfleet.events import StoreTrouble
from workfleet.guards.declare import idempotent


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


async def test_a_result_that_is_too_large_fails_for_good_with_the_reason() -> None:
    guards = await Guards.on_memory()
    size = 8

    @idempotent("job_id", max_result="10B")
    async def work(job_id: str) -> str:
        return "x" * size

    call = guards.bind(work, result=str)
    assert [await call(job_id="a") for _ in range(2)] == ["x" * 8] * 2
    size = 9
    with pytest.raises(Fail, match="result of work: 11 bytes of JSON cannot be remembered, max_result is 10: keep it"):
        await call(job_id="b")
    size = 8
    assert await call(job_id="b") == "x" * 8


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


async def test_a_note_whose_reply_was_lost_keeps_nobody_waiting() -> None:
    guards = await Guards.on_memory()
    put = guards.store.keys.put_if_absent
    runs: list[str] = []

    @idempotent("job_id")
    async def work(job_id: str) -> str:
        runs.append(job_id)
        return "done"

    async def lost(key: str, value: bytes, ttl_ms: int) -> bytes | None:
        guards.store.keys.put_if_absent = put  # type: ignore[method-assign]
        await put(key, value, ttl_ms)
        raise StoreUnavailable("test", "the reply was lost")

    guards.store.keys.put_if_absent = lost  # type: ignore[method-assign]
    call = guards.bind(work)
    with pytest.raises(StoreUnavailable):
        await call(job_id="a")
    assert await asyncio.wait_for(call(job_id="a"), 5) == "done"  # no time passes on the guards' clock
    assert runs == ["a"]


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
