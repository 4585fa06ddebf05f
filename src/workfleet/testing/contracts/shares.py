"""Contract of `Want.share` and `ClaimRequest.total`."""

from __future__ import annotations

import pytest

from workfleet.model.limits import QueueLimits
from workfleet.ports.jobs import ClaimRequest, Want
from workfleet.ports.stores import Store

from .harness import ids, job


async def fill(store: Store, **counts: int) -> None:
    for queue, count in counts.items():
        await store.jobs.enqueue([job(f"{queue}{number}", queue=queue) for number in range(1, count + 1)])


async def asked(store: Store, *wants: Want, total: int | None = None, token: str = "t") -> str:
    return ids(await store.jobs.claim(ClaimRequest("w", token, 30_000, wants, total)))


@pytest.mark.asyncio
class TestShares:
    async def test_first_each_up_to_its_share_then_each_up_to_its_limit(self, store: Store) -> None:
        await fill(store, a=9, b=9)
        assert await asked(store, Want("a", 5, share=2), Want("b", 4, share=1)) == "a1 a2 b1 a3 a4 a5 b2 b3 b4"

    async def test_the_total_goes_to_shares_before_more(self, store: Store) -> None:
        await fill(store, a=9, b=9, c=9)
        wants = (Want("a", 9, share=2), Want("b", 9, share=1), Want("c", 9, share=1))
        assert await asked(store, *wants, total=6) == "a1 a2 b1 c1 a3 a4"

    async def test_what_one_does_not_use_is_for_the_others(self, store: Store) -> None:
        await fill(store, a=1, b=9)
        assert await asked(store, Want("a", 9, share=4), Want("b", 9, share=1), total=5) == "a1 b1 b2 b3 b4"

    async def test_without_a_share_a_queue_gets_its_limit_first(self, store: Store) -> None:
        await fill(store, a=9, b=9)
        assert await asked(store, Want("a", 3), Want("b", 9, share=1), total=4) == "a1 a2 a3 b1"
        assert await asked(store, Want("a", 9), Want("b", 9), total=2, token="t2") == "a4 a5"

    async def test_a_share_of_nothing_gets_only_what_is_left(self, store: Store) -> None:
        await fill(store, a=9, b=2)
        assert await asked(store, Want("a", 9, share=0), Want("b", 9, share=9), total=4) == "b1 b2 a1 a2"

    async def test_a_share_beyond_the_limit_is_the_limit(self, store: Store) -> None:
        await fill(store, a=9)
        assert await asked(store, Want("a", 2, share=5)) == "a1 a2"

    async def test_a_total_of_nothing_gives_nothing(self, store: Store) -> None:
        await fill(store, a=1)
        assert await asked(store, Want("a", 2), total=0) == ""

    async def test_within_the_limits_of_the_queues(self, store: Store) -> None:
        await store.queues.set_limits({"a": QueueLimits(concurrency=2)})
        await fill(store, a=9, b=9)
        assert await asked(store, Want("a", 9, share=3), Want("b", 9, share=1), total=5) == "a1 a2 b1 b2 b3"
