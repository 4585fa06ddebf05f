"""circuit_breaker(scope="fleet"): several processes share one circuit, which the store keeps; without the store each
goes by what it has seen itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guards.remote import Remote, fails
from tests.guards.rig import NOW, Guards
from workfleet.errors import CircuitOpen
from workfleet.events import CircuitClosed, CircuitHalfOpened, CircuitOpened, StoreTrouble
from workfleet.guards.declare import circuit_breaker
from workfleet.ports.stores import Store
from workfleet.testing.clock import TestClock


class Fleet:
    """Processes that call one thing through one circuit."""

    def __init__(self, store: Store, clock: TestClock, processes: int = 3, **options: Any) -> None:
        self.remote = Remote()

        @circuit_breaker(**{"threshold": 3, "reset_after": "30s", "scope": "fleet", **options})
        async def work(host: str = "a") -> str:
            return await self.remote()

        self.processes = [Guards(store, clock, f"worker-{number}") for number in range(processes)]
        self.calls = [process.bind(work, ("host",)) for process in self.processes]
        self.clock = clock

    def move(self, seconds: float) -> None:
        self.clock.move_to(self.clock.now_ms() + round(seconds * 1000))

    async def open(self, **values: Any) -> None:
        """Let three processes fail once each."""
        self.remote.error = OSError("down")
        for call in self.calls[:3]:
            await fails(call, 1, **values)
        self.remote.error = None

    async def refused(self, **values: Any) -> list[int]:
        """In how many milliseconds each process is to ask again."""
        waits = []
        for call in self.calls:
            with pytest.raises(CircuitOpen) as refused:
                await call(**values)
            waits.append(refused.value.retry_after_ms)
        return waits

    def told(self) -> list[str]:
        return [
            name for process in self.processes for name in process.told(CircuitOpened, CircuitHalfOpened, CircuitClosed)
        ]


async def test_failures_of_all_processes_open_it_for_all(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await fleet.open()
    fleet.move(10)
    assert await fleet.refused() == [20_000] * 3
    assert fleet.remote.calls == 3
    assert fleet.told() == ["circuit.opened"]


async def test_a_success_of_any_process_ends_the_row(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    for _ in range(3):
        fleet.remote.error = OSError("down")
        await fails(fleet.calls[0], 1)
        await fails(fleet.calls[1], 1)
        fleet.remote.error = None
        assert await fleet.calls[2]() == "ok"


async def test_failures_at_one_instant_are_all_counted(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, processes=8, threshold=40)
    fleet.remote.error, fleet.remote.gate = OSError("down"), asyncio.Event()
    failing = [asyncio.create_task(call()) for call in fleet.calls * 5]  # type: ignore[arg-type,var-annotated]
    await until(lambda: fleet.remote.calls == 40)
    fleet.remote.gate.set()
    await asyncio.wait(failing)
    assert await fleet.refused() == [30_000] * 8
    assert fleet.told() == ["circuit.opened"]


async def test_one_probe_in_the_fleet_closes_it_for_all(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await fleet.open()
    fleet.move(30)
    fleet.remote.gate = asyncio.Event()
    calling = [asyncio.create_task(call()) for call in fleet.calls * 5]  # type: ignore[arg-type,var-annotated]
    await until(lambda: sum(task.done() for task in calling) == 14)
    fleet.remote.gate.set()
    ended = await asyncio.gather(*calling, return_exceptions=True)
    fleet.remote.gate = None
    assert ended.count("ok") == 1
    assert sum(isinstance(each, CircuitOpen) for each in ended) == 14
    assert fleet.remote.calls == 3 + 1
    assert [await call() for call in fleet.calls] == ["ok"] * 3
    assert sorted(fleet.told()) == ["circuit.closed", "circuit.half_opened", "circuit.opened"]


async def test_a_probe_that_fails_opens_it_for_all(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await fleet.open()
    fleet.move(30)
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[1], 1)
    assert await fleet.refused() == [30_000] * 3


async def test_a_probe_whose_process_is_gone_is_free_after_its_lease(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await fleet.open()
    fleet.move(30)
    fleet.remote.gate = asyncio.Event()
    lost = asyncio.create_task(fleet.calls[0]())  # type: ignore[arg-type,var-annotated]
    await until(lambda: fleet.remote.calls == 4)
    fleet.processes[0].keys.down = {"get", "replace"}  # as good as gone
    fleet.remote.gate = None
    fleet.move(29)
    for call in fleet.calls[1:]:
        with pytest.raises(CircuitOpen) as refused:
            await call()
        assert refused.value.retry_after_ms == 1_000
    fleet.move(1)
    assert await fleet.calls[2]() == "ok"
    assert await fleet.calls[1]() == "ok"
    lost.cancel()
    await asyncio.wait([lost])


async def test_a_probe_that_is_cancelled_is_free_at_once(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await fleet.open()
    fleet.move(30)
    fleet.remote.gate = asyncio.Event()
    probe = asyncio.create_task(fleet.calls[0]())  # type: ignore[arg-type,var-annotated]
    await until(lambda: fleet.remote.calls == 4)
    probe.cancel()
    await asyncio.wait([probe])
    fleet.remote.gate = None
    assert await fleet.calls[1]() == "ok"


async def test_its_window_and_its_key_hold_in_the_fleet(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, window="1m", key="host")
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[0], 2, host="a")
    await fails(fleet.calls[0], 2, host="b")
    fleet.move(60)
    await fails(fleet.calls[1], 2, host="a")
    fleet.move(59)
    await fails(fleet.calls[2], 1, host="a")
    assert len(await fleet.refused(host="a")) == 3
    await fails(fleet.calls[2], 1, host="b")


async def test_successes_of_all_processes_count_for_a_rate(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, window="1m", failure_rate=0.5)
    for call in fleet.calls:
        for _ in range(4):
            await call()
            fleet.move(1)  # so that each is told
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[0], 11)  # 11 of 23
    await fails(fleet.calls[1], 1)  # 12 of 24
    assert await fleet.refused() == [30_000] * 3


async def test_successes_that_wait_to_be_told_go_with_the_next_failure(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, window="1m", failure_rate=0.5)
    for _ in range(20):
        await fleet.calls[0]()
    process = fleet.processes[0]
    assert process.keys.calls.count("put_if_absent") + process.keys.calls.count("replace") == 1
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[0], 1)
    await fails(fleet.calls[1], 18)  # 19 of 39: had the 19 waiting ones been lost, it would have opened at the third
    await fails(fleet.calls[1], 1)
    assert await fleet.refused() == [30_000] * 3


async def test_successes_that_wait_are_told_after_a_second(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, window="1m", failure_rate=0.5)
    for _ in range(20):
        await fleet.calls[0]()
    fleet.move(1)
    await fleet.calls[0]()
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[1], 21)  # 20 of 41 open nothing, 21 of 42 do
    assert await fleet.refused() == [30_000] * 3


async def test_while_nothing_fails_a_call_costs_one_read(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    for _ in range(3):
        await fleet.calls[0]()
    assert fleet.processes[0].keys.calls == ["get"] * 3


async def test_without_the_store_each_process_goes_by_what_it_has_seen(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[0], 2)
    for process in fleet.processes:
        process.keys.down = {"get", "put_if_absent", "replace", "delete"}
    await fails(fleet.calls[0], 1)  # its third
    with pytest.raises(CircuitOpen):
        await fleet.calls[0]()
    await fails(fleet.calls[1], 2)
    fleet.remote.error = None
    assert await fleet.calls[1]() == "ok"
    for process in fleet.processes:
        process.keys.down = set()
    assert await fleet.calls[0]() == "ok"  # the fleet has seen two failures
    troubles = [event for event in fleet.processes[0].events if isinstance(event, StoreTrouble)]
    assert [event.what for event in troubles] == ["the circuit of work"]  # once, not for each call


async def test_an_outage_when_a_call_ends_does_not_fail_it(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, threshold=1)
    fleet.processes[0].keys.down = {"put_if_absent", "replace"}
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[0], 1)
    fleet.processes[0].keys.down = {"get"}
    with pytest.raises(CircuitOpen):
        await fleet.calls[0]()


async def test_a_write_whose_reply_was_lost_is_not_taken_for_anothers(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock, threshold=2)
    keys, put = fleet.processes[0].keys, store.keys.put_if_absent

    async def twice(key: str, value: bytes, ttl_ms: int) -> bytes | None:
        await put(key, value, ttl_ms)
        return await put(key, value, ttl_ms)  # as a client does that has heard no answer

    keys.replaced["put_if_absent"] = twice
    fleet.remote.error = OSError("down")
    await fails(fleet.calls[0], 1)
    await fails(fleet.calls[1], 1)  # were it counted twice, this one would be refused
    assert await fleet.refused() == [30_000] * 3


async def test_what_another_release_has_stored_stops_no_call(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await store.keys.put_if_absent("circuit work", b"something else altogether, of another release", 60_000)
    assert await fleet.calls[0]() == "ok"
    await fleet.open()
    assert await fleet.refused() == [30_000] * 3


async def test_nothing_is_kept_for_ever(store: Store, clock: TestClock) -> None:
    fleet = Fleet(store, clock)
    await fleet.open()
    clock.move_to(NOW + 2 * 86_400_000)
    assert await store.keys.get("circuit work") is None


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
