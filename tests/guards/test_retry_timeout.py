"""retry and timeout, of pool methods: which calls are made again and when, what is ended, and how both combine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards.remote import Remote
from tests.guards.rig import Guards
from workfleet.errors import (
    CallTimeout,
    Cancel,
    ChildDied,
    CircuitOpen,
    Fail,
    MemoryLimitExceeded,
    PayloadRejected,
    PoolBusy,
    PoolFailed,
    RateLimited,
    RemoteError,
    Retry,
    Skipped,
    Snooze,
)
from workfleet.events import CallRetried
from workfleet.guards.declare import circuit_breaker, locked, retry, timeout
from workfleet.model.policy import exponential, linear


async def guarded(*decorators: Any, label: str = "ImageWorker.resize") -> tuple[Guards, Remote, Any]:
    """A method inside these guards, the first outermost."""
    guards, remote = await Guards.on_memory(), Remote()

    async def work() -> str:
        return await remote()

    decorated: Any = work
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    return guards, remote, guards.bind(decorated, (), label=label)


async def outcome(guards: Guards, call: Any, seconds: float = 3_600) -> Any:
    """What a call comes to within this time, and how long it took."""
    began, calling = guards.clock.now_ms(), asyncio.create_task(call())
    await asyncio.sleep(0)
    while not calling.done() and guards.clock.now_ms() < began + seconds * 1000:
        if (due := min((sleeper.due_ms for sleeper in guards.clock.sleepers), default=None)) is not None:
            guards.clock.move_to(due)
        for _ in range(10):
            await asyncio.sleep(0)
    assert calling.done(), "it has not ended"
    error = calling.exception()
    return error if error is not None else calling.result(), (guards.clock.now_ms() - began) / 1000


# retry


async def test_a_call_that_fails_is_made_again_up_to_its_attempts() -> None:
    guards, remote, call = await guarded(retry(4, backoff=linear("1s")))
    remote.error = ChildDied("images", "resize", 1, "signal SIGKILL")
    ended, seconds = await outcome(guards, call)
    assert ended is remote.error
    assert (remote.calls, seconds) == (4, 1 + 2 + 3)
    told = [event for event in guards.events if isinstance(event, CallRetried)]
    assert [(each.attempt, each.attempts, each.wait_ms) for each in told] == [
        (1, 4, 1_000),
        (2, 4, 2_000),
        (3, 4, 3_000),
    ]
    assert "SIGKILL" in told[0].message()


async def test_the_first_success_ends_it() -> None:
    guards, remote, call = await guarded(retry())
    remote.error = OSError("down")
    calling = asyncio.create_task(call())
    await settled()
    remote.error = None
    await guards.move(0.25)
    assert await calling == "ok"
    assert remote.calls == 2


async def test_without_a_backoff_said_it_grows_with_jitter() -> None:
    guards, remote, call = await guarded(retry(5))
    remote.error = OSError("down")
    _, seconds = await outcome(guards, call)
    assert seconds == (0.1 + 0.2 + 0.4 + 0.8) / 2  # the rig draws 0.5
    guards, remote, call = await guarded(retry(3, backoff=exponential("10s", jitter="none")))
    remote.error = OSError("down")
    assert (await outcome(guards, call))[1] == 30
    guards, remote, call = await guarded(retry(3, backoff=None))
    remote.error = OSError("down")
    assert (await outcome(guards, call))[1] == 0


@pytest.mark.parametrize(
    "error",
    [
        PayloadRejected("x", "$", "no"),
        PoolFailed("images", "crash loop"),
        MemoryLimitExceeded("images", "resize", 2, 1),
        CircuitOpen("c", 10),
        Fail("no"),
        Cancel(),
        Skipped("no"),
        Snooze("1s"),
        Retry(),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_another_call_does_not_help_is_not_repeated(error: BaseException) -> None:
    _, remote, call = await guarded(retry(3, backoff=None))
    remote.error = error
    with pytest.raises(type(error)):
        await call()
    assert remote.calls == 1


@pytest.mark.parametrize("error", [PoolBusy("images", 1, 7_000), RateLimited("r", 1, 1, 7_000)])
async def test_who_was_too_busy_is_asked_again_when_he_has_said(error: Exception) -> None:
    guards, remote, call = await guarded(retry(3, backoff="1s"))
    remote.error = error
    assert await outcome(guards, call) == (error, 14)


async def test_on_says_after_which_exceptions() -> None:
    for error, calls in (
        (ConnectionResetError("x"), 3),
        (KeyError("x"), 1),
        (MemoryLimitExceeded("p", "m", 2, 1), 3),  # because it is named
        (RemoteError("ConnectionError", "x", ""), 3),
        (RemoteError("KeyError", "x", ""), 1),
    ):
        _, remote, call = await guarded(retry(3, backoff=None, on=(ConnectionError, MemoryLimitExceeded)))
        remote.error = error
        with pytest.raises(type(error)):
            await call()
        assert remote.calls == calls, error


# timeout


async def test_a_call_that_takes_too_long_is_cancelled() -> None:
    guards, remote, call = await guarded(timeout("5s"))
    remote.gate = asyncio.Event()
    calling = asyncio.create_task(call())
    await settled()
    await guards.move(4.75)
    assert not calling.done()
    await guards.move(0.25)
    with pytest.raises(CallTimeout, match=r"ImageWorker\.resize did not end within 5 s: it was cancelled") as late:
        await calling
    assert (late.value.pool, late.value.method, late.value.timeout_ms) == ("ImageWorker", "resize", 5_000)
    assert not guards.clock.sleepers


async def test_a_call_in_time_and_one_that_fails_are_as_without_it() -> None:
    guards, remote, call = await guarded(timeout("5s"))
    assert await call() == "ok"
    remote.error = KeyError("its own")
    with pytest.raises(KeyError):
        await call()
    await settled()
    assert not guards.clock.sleepers


async def test_whoever_cancels_the_call_cancels_what_it_does() -> None:
    guards, remote, call = await guarded(timeout("5s"))
    remote.gate = asyncio.Event()
    calling = asyncio.create_task(call())
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    assert calling.cancelled()
    await settled()
    assert not guards.clock.sleepers


async def test_what_goes_on_after_its_cancellation_is_not_cancelled_again() -> None:
    guards = await Guards.on_memory()

    @timeout("5s")
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        return "never"

    async def calls() -> tuple[object, int]:
        task = asyncio.current_task()
        assert task is not None
        return await guards.bind(work, ())(), task.cancelling()

    calling = asyncio.create_task(calls())
    await settled()
    await guards.move(5)
    assert await calling == ("all the same", 0)


async def test_a_cancellation_at_the_same_moment_is_no_timeout() -> None:
    guards, remote, call = await guarded(timeout("5s"))
    remote.gate = asyncio.Event()
    calling = asyncio.create_task(call())
    await settled()
    guards.clock.move_to(guards.clock.now_ms() + 5_000)
    await asyncio.sleep(0)  # the alarm has rung
    calling.cancel()
    await asyncio.wait([calling])
    assert calling.cancelled()


# Together


async def test_a_timeout_below_is_of_each_call_and_one_above_of_all() -> None:
    for decorators, calls, seconds in (
        ((retry(3, backoff="1s"), timeout("5s")), 3, 5 + 1 + 5 + 1 + 5),
        ((timeout("5s"), retry(3, backoff="1s")), 1, 5),
    ):
        guards, remote, call = await guarded(*decorators)
        remote.gate = asyncio.Event()
        ended, took = await outcome(guards, call)
        assert isinstance(ended, CallTimeout)
        assert (remote.calls, took) == (calls, seconds)


async def test_a_timeout_counts_the_wait_for_a_lock_below_it() -> None:
    guards, remote, call = await guarded(timeout("5s"), locked("a", on_busy="wait"))
    async with guards.another().locks.lock("a"):
        calling = asyncio.create_task(call())
        await guards.move(6)
        with pytest.raises(CallTimeout):
            await calling
    assert remote.calls == 0
    assert await call() == "ok"  # nothing of it is left in the lock's way


async def test_a_breaker_above_counts_once_and_one_below_each_call() -> None:
    breaker = circuit_breaker(threshold=2)
    for decorators, calls in (((breaker, retry(3, backoff=None)), 3), ((retry(3, backoff=None), breaker), 2)):
        _, remote, call = await guarded(*decorators)
        remote.error = OSError("down")
        with pytest.raises((OSError, CircuitOpen)):
            await call()
        assert remote.calls == calls


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
