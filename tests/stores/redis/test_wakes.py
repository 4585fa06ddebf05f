"""Notifications between stores, as between processes; and that they come back after the server does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import pulse
from workfleet.testing.contracts.schedules import schedule

_SOON_S = 30


@asynccontextmanager
async def two(server: Server, *apps: str) -> AsyncIterator[list[RedisStore]]:
    stores = [await RedisStore.open(server.url, app=app, clock=SystemClock()) for app in apps]
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


async def waiting(store: RedisStore) -> asyncio.Task[bool]:
    task = asyncio.create_task(store.schedules.wait(60_000))
    await asyncio.sleep(0.05)
    assert not task.done()
    return task


async def test_a_change_wakes_the_other_process(server: Server) -> None:
    async with two(server, "shop", "shop") as (one, other):
        for change in (
            lambda: one.schedules.merge([schedule("a")]),
            lambda: one.schedules.set_paused("a", paused=True),
            lambda: one.schedules.put(schedule("a"), replace=True),
            lambda: one.schedules.remove("a"),
        ):
            task = await waiting(other)
            await change()
            assert await asyncio.wait_for(task, _SOON_S)


async def test_what_changed_nothing_and_another_app_wake_nobody(server: Server) -> None:
    async with two(server, "shop", "shop", "other") as (one, same, other):
        await one.schedules.merge([schedule("a")])
        assert await asyncio.wait_for(same.schedules.wait(60_000), _SOON_S)
        tasks = [await waiting(same), await waiting(other)]
        await one.schedules.merge([schedule("a")])
        await one.schedules.remove("nobody")
        await one.schedules.set_paused("nobody", paused=True)
        await asyncio.sleep(0.1)
        assert [task.done() for task in tasks] == [False, False]
        await one.schedules.remove("a")
        assert await asyncio.wait_for(tasks[0], _SOON_S)
        assert not tasks[1].done()
        tasks[1].cancel()


async def test_what_no_message_told_a_pulse_tells(server: Server) -> None:
    async with two(server, "shop", "shop") as (one, other):
        await pulse(other)  # the first one wakes in any case
        assert await other.schedules.wait(0)
        one._session.channel = "where nobody listens"
        for change in (
            lambda: one.schedules.merge([schedule("a")]),
            lambda: one.schedules.set_paused("a", paused=True),
            lambda: one.schedules.put(schedule("a"), replace=True),
            lambda: one.schedules.remove("a"),
        ):
            task = await waiting(other)
            await change()
            await asyncio.sleep(0.1)
            assert not task.done(), "the message was to be lost"
            await pulse(other)
            assert await asyncio.wait_for(task, _SOON_S)
        task = await waiting(other)
        await pulse(other)
        await asyncio.sleep(0.1)
        assert not task.done(), "nothing has changed"
        task.cancel()


async def test_a_store_does_not_hear_itself(server: Server) -> None:
    """What it changed before it looked is no news, also when the message comes late."""
    async with two(server, "shop") as (store,):
        task = await waiting(store)
        session = store._session
        server.ask("PUBLISH", session.channel, f"{session.sender}\nschedules")
        await asyncio.sleep(0.1)
        assert not task.done()
        server.ask("PUBLISH", session.channel, "another\nqueue q\nschedules")
        assert await asyncio.wait_for(task, _SOON_S)


@pytest.mark.parametrize("how", ["restarted", "killed connections"])
async def test_who_waits_is_woken_when_the_server_is_back(own_server: Server, how: str) -> None:
    async with two(own_server, "shop", "shop") as (one, other):
        task = await waiting(other)
        for _ in range(3):
            if how == "restarted":
                own_server.stop()
                await asyncio.to_thread(own_server.start)
            else:
                own_server.ask("CLIENT", "KILL", "TYPE", "pubsub")
                await asyncio.sleep(0.3)
        # What was missed is not known, so whoever waits must look.
        assert await asyncio.wait_for(task, _SOON_S)
        async with asyncio.timeout(_SOON_S):
            while len(await _listeners(own_server)) < 2:
                await asyncio.sleep(0.02)
            while True:
                try:
                    await one.schedules.merge([schedule("a")])
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.02)
        assert await asyncio.wait_for(other.schedules.wait(60_000), _SOON_S)


async def _listeners(server: Server) -> list[str]:
    listed = await asyncio.to_thread(server.ask, "CLIENT", "LIST", "TYPE", "pubsub")
    assert isinstance(listed, bytes)
    return [line for line in listed.decode().splitlines() if " sub=1 " in line]


async def test_a_user_without_a_right_to_the_channel_is_told(own_server: Server) -> None:
    own_server.ask("ACL", "SETUSER", "me", "on", "nopass", "~*", "resetchannels", "+@all")
    with pytest.raises(StoreUnavailable, match="lacks a right on the server"):
        await RedisStore.open(f"redis://me:x@127.0.0.1:{own_server.port}", app="shop", clock=SystemClock())
