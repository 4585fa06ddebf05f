"""circuit_breaker: when it opens, what its probe does, and what neither opens nor closes it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.guards.remote import Remote, fails
from tests.guards.rig import Guards
from workfleet.errors import (
    CircuitOpen,
    Fail,
    LockBusy,
    PayloadRejected,
    PoolBusy,
    RateLimited,
    RemoteError,
    Retry,
    Skipped,
    Snooze,
)
from workfleet.events import CircuitClosed, CircuitHalfOpened, CircuitOpened
from workfleet.guards.declare import circuit_breaker


async def breaker(threshold: int = 3, **options: Any) -> tuple[Guards, Remote, Any]:
    guards, remote = await Guards.on_memory(), Remote()

    @circuit_breaker(**{"threshold": threshold, "reset_after": "30s", **options})
    async def work(host: str = "a") -> str:
        return await remote()

    return guards, remote, guards.bind(work, ("host",))


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


@pytest.mark.parametrize(
    "error",
    [
        Retry(),
        Snooze("1s"),
        Fail("x"),
        Skipped("x"),
        asyncio.CancelledError(),
        PoolBusy("p", 1, 1),
        PayloadRejected("x", "$", "no"),
        LockBusy("l", "somebody"),
        RateLimited("r", 1, 1, 1),
        CircuitOpen("inner", 1),
    ],
    ids=lambda error: type(error).__name__,
)
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


# Options


async def test_with_a_window_failures_need_not_be_in_a_row() -> None:
    guards, remote, call = await breaker(window="1m")
    for _ in range(2):
        remote.error = OSError("down")
        await fails(call, 1)
        remote.error = None
        await call()
        await guards.move(20)
    remote.error = OSError("down")
    await fails(call, 1)  # the third within 40 s
    with pytest.raises(CircuitOpen):
        await call()


async def test_failures_leave_the_window() -> None:
    guards, remote, call = await breaker(window="1m")
    remote.error = OSError("down")
    await fails(call, 2)
    await guards.move(60)  # exactly a window later both are out of it
    await fails(call, 2)
    remote.error = None
    assert await call() == "ok"
    await guards.move(59.75)
    remote.error = OSError("down")
    await fails(call, 1)
    with pytest.raises(CircuitOpen):
        await call()


async def test_a_failure_rate_is_a_share_of_the_calls_in_the_window() -> None:
    guards, remote, call = await breaker(window="1m", failure_rate=0.5)
    for _ in range(5):
        await call()
    remote.error = OSError("down")
    await fails(call, 4)  # 4 of 9, although `threshold` is 3
    remote.error = None
    assert await call() == "ok"
    remote.error = OSError("down")
    await fails(call, 2)  # 6 of 12
    with pytest.raises(CircuitOpen):
        await call()
    await guards.move(30)
    remote.error = None
    assert await call() == "ok"  # the probe: the window begins anew
    remote.error = OSError("down")
    await fails(call, 2)
    with pytest.raises(OSError, match="down"):
        await call()


async def test_below_its_threshold_a_rate_opens_nothing() -> None:
    _, remote, call = await breaker(window="1m", failure_rate=0.5)
    remote.error = OSError("down")
    await fails(call, 2)  # 2 of 2
    remote.error = None
    assert await call() == "ok"


async def test_each_value_of_the_key_has_its_circuit() -> None:
    _, remote, call = await breaker(key="host")
    remote.error = OSError("down")
    await fails(call, 3, host="a")
    with pytest.raises(CircuitOpen, match="circuit 'work a' is open"):
        await call(host="a")
    remote.error = None
    assert await call(host="b") == "ok"


async def test_the_number_of_keys_that_are_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workfleet.guards.circuits._MOST", 50)
    _, remote, call = await breaker(threshold=2, key="host")
    remote.error = OSError("down")
    await fails(call, 1, host="first")
    for number in range(49):
        await fails(call, 1, host=number)
    await fails(call, 1, host="one too many")
    await fails(call, 1, host="first")  # forgotten, so that this is its first failure…
    await fails(call, 1, host="one too many")
    with pytest.raises(CircuitOpen):
        await call(host="one too many")  # …and the newest are not


@pytest.mark.parametrize("options", [{"only": (ConnectionError, TimeoutError)}, {"ignore": LookupError}])
async def test_which_exceptions_are_failures_can_be_said(options: dict[str, Any]) -> None:
    _, remote, call = await breaker(threshold=1, **options)
    remote.error = KeyError("not there")
    for _ in range(3):
        with pytest.raises(KeyError):
            await call()
    remote.error = ConnectionResetError("gone")
    with pytest.raises(ConnectionResetError):
        await call()
    with pytest.raises(CircuitOpen):
        await call()


async def test_what_a_child_could_not_send_is_known_by_its_name() -> None:
    _, remote, call = await breaker(threshold=1, ignore=LookupError)
    remote.error = RemoteError("LookupError", "x", "")
    for _ in range(3):
        with pytest.raises(RemoteError):
            await call()
    remote.error = RemoteError("shop.Declined", "x", "")
    with pytest.raises(RemoteError):
        await call()
    with pytest.raises(CircuitOpen):
        await call()


async def test_a_fallback_answers_only_while_the_circuit_is_open() -> None:
    asked: list[str] = []

    async def remembered(host: str) -> str:
        asked.append(host)
        return f"what {host} said before"

    guards, remote, call = await breaker(threshold=2, fallback=remembered)
    remote.error = OSError("down")
    await fails(call, 2, host="a")  # a call that fails is not answered by it
    assert asked == []
    assert await call(host="b") == "what b said before"
    assert (asked, remote.calls) == (["b"], 2)
    await guards.move(30)
    remote.error, remote.gate = None, asyncio.Event()
    probe = asyncio.create_task(call(host="c"))
    await asyncio.sleep(0)
    assert await call(host="d") == "what d said before"  # while the probe is under way, too
    remote.gate.set()
    assert await probe == "ok"
    assert await call(host="e") == "ok"
    assert asked == ["b", "d"]


async def test_a_fallback_gets_what_it_has_parameters_for() -> None:
    for fallback, answer in (
        (lambda: 1, 1),
        (lambda host, more=2: (host, more), ("a", 2)),
        (lambda **values: values, {"host": "a"}),
    ):
        _, remote, call = await breaker(threshold=1, fallback=fallback)
        remote.error = OSError("down")
        await fails(call, 1, host="a")
        assert await call(host="a") == answer


async def test_what_a_fallback_raises_is_its_own() -> None:
    def broken() -> None:
        raise KeyError("nothing is remembered")

    _, remote, call = await breaker(threshold=1, fallback=broken)
    remote.error = OSError("down")
    await fails(call, 1)
    with pytest.raises(KeyError) as raised:
        await call()
    assert raised.value.__context__ is None


async def test_a_fallback_that_wants_more_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="has a parameter 'port', which the call has not; there are host, by name"):
        await breaker(fallback=lambda port: port)


async def test_a_probe_that_hangs_is_followed_by_another_after_its_lease() -> None:
    guards, remote, call = await breaker(threshold=1)
    remote.error = OSError("down")
    await fails(call, 1)
    await guards.move(30)
    remote.error, remote.gate = None, asyncio.Event()
    hanging = asyncio.create_task(call())
    await asyncio.sleep(0)
    await guards.move(29)
    with pytest.raises(CircuitOpen) as open_:
        await call()
    assert open_.value.retry_after_ms == 1_000
    await guards.move(1)
    gate, remote.gate, remote.error = remote.gate, None, OSError("down")
    await fails(call, 1)  # the next probe
    gate.set()
    assert await hanging == "ok"
    with pytest.raises(CircuitOpen):
        await call()  # the first one came too late to close it


async def test_its_changes_are_told() -> None:
    guards, remote, call = await breaker(threshold=1)
    remote.error = OSError("down")
    await fails(call, 1)
    await guards.move(30)
    await fails(call, 1)
    await guards.move(30)
    remote.error = None
    await call()
    await call()
    told = guards.told(CircuitOpened, CircuitHalfOpened, CircuitClosed)
    assert told == [
        "circuit.opened", "circuit.half_opened", "circuit.opened", "circuit.half_opened", "circuit.closed"
    ]  # fmt: skip
    assert guards.events[0] == CircuitOpened(
        circuit="work", scope="process", reset_after_ms=30_000, error="OSError: down"
    )


async def test_a_refused_run_waits_without_being_an_attempt() -> None:
    guards, remote = await Guards.on_memory(), Remote()

    @circuit_breaker(threshold=1, reset_after="30s")
    async def work() -> str:
        return await remote()

    call = guards.bind(work, (), place="run")
    remote.error = OSError("down")
    await fails(call, 1)
    await guards.move(10)
    with pytest.raises(Snooze, match="circuit 'work' is open") as snoozed:
        await call()
    assert snoozed.value.after == timedelta(seconds=20)
