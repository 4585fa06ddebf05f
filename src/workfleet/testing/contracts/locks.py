"""Contract of `LockStore`."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.model.fleet import LockGrant, LockHeld
from workfleet.ports.stores import Store

from .harness import ManualClock, Opener


async def grant(store: Store, name: str, owner: str, ttl_ms: int = 1_000) -> LockGrant:
    """A lock that must be free."""
    answer = await store.locks.acquire(name, owner, ttl_ms)
    assert isinstance(answer, LockGrant)
    return answer


@pytest.mark.asyncio
class TestLocks:
    async def test_a_held_lock_excludes_others_until_its_very_end(self, store: Store, clock: ManualClock) -> None:
        now = await store.now_ms()
        first = await grant(store, "l", "me")
        assert (first.name, first.owner, first.expires_ms) == ("l", "me", now + 1_000)
        await clock.advance(999)
        assert await store.locks.acquire("l", "you", 1_000) == LockHeld("l", "me", now + 1_000)
        assert await store.locks.held() == [first]
        await clock.advance(1)
        assert await store.locks.held() == []
        second = await grant(store, "l", "you")
        assert second.fence > first.fence

    async def test_the_fence_is_the_time_in_microseconds_or_one_more(self, store: Store, clock: ManualClock) -> None:
        now_us = await store.now_ms() * 1_000
        assert (await grant(store, "a", "me")).fence == now_us
        assert (await grant(store, "b", "me")).fence == now_us + 1
        await clock.advance(1)
        assert (await grant(store, "c", "me")).fence == now_us + 1_000

    async def test_the_fence_grows_though_the_clock_is_set_back(self, store: Store, clock: ManualClock) -> None:
        fences = [(await grant(store, "a", "me")).fence]
        await store.locks.release("a", "me")
        fences.append((await grant(store, "a", "me")).fence)
        await clock.advance(-31_536_000_000)
        fences.append((await grant(store, "b", "you")).fence)
        await clock.advance(31_536_000_000)
        assert fences == sorted(set(fences))

    async def test_the_fence_outlives_its_opening(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        first = await grant(store, "a", "me", ttl_ms=10)
        await clock.advance(-5)
        again = await opener("shop", clock)
        assert (await grant(again, "b", "me")).fence == first.fence + 1
        if again is not store:
            await again.close()

    async def test_its_owner_gets_the_same_grant_renewed(self, store: Store, clock: ManualClock) -> None:
        first = await grant(store, "l", "me")
        await clock.advance(400)
        again = await grant(store, "l", "me", ttl_ms=2_000)
        assert (again.fence, again.expires_ms) == (first.fence, await store.now_ms() + 2_000)

    async def test_renew_extends_what_is_still_held(self, store: Store, clock: ManualClock) -> None:
        first = await grant(store, "l", "me")
        await clock.advance(999)
        renewed = await store.locks.renew("l", "me", 1_000)
        assert renewed == LockGrant("l", "me", first.fence, await store.now_ms() + 1_000)
        assert await store.locks.renew("l", "you", 1_000) is None
        assert await store.locks.renew("free", "me", 1_000) is None
        await clock.advance(1_000)
        assert await store.locks.renew("l", "me", 1_000) is None

    async def test_who_has_lost_a_lock_can_neither_renew_nor_release_it(self, store: Store, clock: ManualClock) -> None:
        first = await grant(store, "l", "me")
        await clock.advance(1_000)
        second = await grant(store, "l", "you")
        assert second.fence > first.fence
        assert await store.locks.renew("l", "me", 60_000) is None
        assert not await store.locks.release("l", "me")
        assert await store.locks.held() == [second]
        assert await store.locks.release("l", "you")
        # Free or not, what was lost does not come back under its old fence.
        assert await store.locks.renew("l", "me", 60_000) is None
        assert (await grant(store, "l", "me")).fence > second.fence

    async def test_a_renewal_can_shorten_and_counts_from_now(self, store: Store, clock: ManualClock) -> None:
        await grant(store, "l", "me", ttl_ms=60_000)
        await clock.advance(10)
        assert await store.locks.renew("l", "me", 100) is not None
        await clock.advance(99)
        assert await store.locks.acquire("l", "you", 1_000) == LockHeld("l", "me", await store.now_ms() + 1)
        await clock.advance(1)
        await grant(store, "l", "you")

    async def test_names_and_owners_may_be_any_text(self, store: Store) -> None:
        odd = ["a\nb", "ü:*?[x]", "{tag}", "x" * 300, "\\ '\";--"]
        grants = [await grant(store, name, f"owner of {name}") for name in odd]
        assert await store.locks.held() == sorted(grants, key=lambda one: one.name)
        for name in odd:
            assert isinstance(await store.locks.acquire(name, "another", 1_000), LockHeld)
            assert await store.locks.release(name, f"owner of {name}")
        assert await store.locks.held() == []

    async def test_apps_that_share_a_store_do_not_meet(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        other = await opener("another", clock)
        ours = await grant(store, "l", "me")
        await grant(other, "l", "me too")
        assert await store.locks.held() == [ours]
        assert await other.locks.release("l", None)
        assert await store.locks.held() == [ours]
        await other.close()

    async def test_release_frees_what_its_owner_or_an_operator_names(self, store: Store, clock: ManualClock) -> None:
        await grant(store, "l", "me")
        assert not await store.locks.release("l", "you")
        assert await store.locks.release("l", "me")
        assert not await store.locks.release("l", "me")
        await grant(store, "l", "you")
        assert await store.locks.release("l", None)
        assert not await store.locks.release("l", None)
        await grant(store, "l", "me")
        await clock.advance(1_000)
        assert not await store.locks.release("l", "me")

    async def test_held_lists_by_name(self, store: Store, clock: ManualClock) -> None:
        for name, ttl_ms in (("c", 10), ("b", 500), ("a", 500)):
            await grant(store, name, "me", ttl_ms)
        await clock.advance(10)
        assert [lock.name for lock in await store.locks.held()] == ["a", "b"]

    async def test_of_fifty_at_once_one_gets_it(self, store: Store) -> None:
        answers = await asyncio.gather(*(store.locks.acquire("l", f"o{n}", 1_000) for n in range(50)))
        granted = [answer for answer in answers if isinstance(answer, LockGrant)]
        assert len(granted) == 1
        assert {answer.owner for answer in answers} == {granted[0].owner}
