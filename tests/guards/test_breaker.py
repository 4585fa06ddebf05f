"""circuit_breaker: when it opens, what its probe does, and what neither opens nor closes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards.rig import Guards
from workfleet.errors import (
    CircuitOpen,
    Fail,
    Retry,
    Skipped,
    Snooze,
)
from workfleet.guards.declare import circuit_breaker


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
