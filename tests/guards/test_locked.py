"""locked: what it does while somebody holds the lock, and how it keeps and frees its own."""

from __future__ import annotations

import asyncio

import pytest

from tests.guards.rig import Guards
from workfleet.errors import (
    LockBusy,
    LockLost,
    Skipped,
)
from workfleet.events import LockBusySkipped
from workfleet.guards.declare import locked


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
