"""Contract of `KeyStore`."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.ports.stores import Store

from .harness import ManualClock


@pytest.mark.asyncio
class TestKeys:
    async def test_a_value_is_there_until_its_very_end(self, store: Store, clock: ManualClock) -> None:
        assert await store.keys.get("k") is None
        assert await store.keys.put_if_absent("k", b"\x00\xff", 100) is None
        await clock.advance(99)
        assert await store.keys.get("k") == b"\x00\xff"
        await clock.advance(1)
        assert await store.keys.get("k") is None
        assert await store.keys.put_if_absent("k", b"", 100) is None
        assert await store.keys.get("k") == b""

    async def test_put_if_absent_returns_what_was_there(self, store: Store, clock: ManualClock) -> None:
        await store.keys.put_if_absent("k", b"first", 100)
        assert await store.keys.put_if_absent("k", b"second", 9_000) == b"first"
        await clock.advance(100)
        assert await store.keys.get("k") is None

    async def test_of_fifty_at_once_one_is_first(self, store: Store) -> None:
        there = await asyncio.gather(*(store.keys.put_if_absent("k", str(n).encode(), 100) for n in range(50)))
        winner = await store.keys.get("k")
        assert there.count(None) == 1
        assert there.count(winner) == 49

    async def test_replace_only_what_is_expected(self, store: Store, clock: ManualClock) -> None:
        await store.keys.put_if_absent("k", b"1", 100)
        assert not await store.keys.replace("k", b"other", b"2", 100)
        await clock.advance(50)
        assert await store.keys.replace("k", b"1", b"2", 100)
        assert await store.keys.replace("k", b"1", b"2", 100)
        assert await store.keys.get("k") == b"2"
        await clock.advance(99)
        assert await store.keys.get("k") == b"2"
        await clock.advance(1)
        assert not await store.keys.replace("k", b"2", b"3", 100)
        assert not await store.keys.replace("none", b"1", b"2", 100)

    async def test_delete_only_what_is_expected(self, store: Store, clock: ManualClock) -> None:
        await store.keys.put_if_absent("k", b"1", 100)
        assert not await store.keys.delete("k", b"2")
        assert await store.keys.delete("k", b"1")
        assert not await store.keys.delete("k", b"1")
        await store.keys.put_if_absent("k", b"1", 100)
        await clock.advance(100)
        assert not await store.keys.delete("k", b"1")
