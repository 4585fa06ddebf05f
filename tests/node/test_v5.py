"""BullMQ 5 beside us: whoever pauses and resumes, no waiting job is lost."""

from __future__ import annotations

import itertools

import pytest

from tests.node.node import NodeRoom
from tests.node.ours import claim, job
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
WHO = ("we", "v5", "v6")


@pytest.mark.parametrize(("pauser", "resumer"), list(itertools.product(WHO, WHO)))
async def test_nothing_is_lost(node: NodeRoom, store: RedisStore, pauser: str, resumer: str) -> None:
    """Where v6 pauses and v5 resumes they would be, had we not added something in between: so there is a warning."""
    v6, v5 = await node.queue(lib=6), await node.queue(lib=5)
    # What `meta` says is who came last.
    assert (await store.peers()) == []
    await store.jobs.enqueue([job("a")])
    await v5.call("add", "ok", {}, {"jobId": "b"})

    async def turn(who: str, *, paused: bool) -> None:
        if who == "we":
            assert await store.queues.set_paused("q", paused=paused)
        else:
            await (v5 if who == "v5" else v6).call("pause" if paused else "resume")

    await turn(pauser, paused=True)
    await store.jobs.enqueue([job("c")])
    await v5.call("add", "ok", {}, {"jobId": "d"})
    await store.jobs.enqueue([job("e")])
    assert await claim(store, 9) == []
    assert (await store.jobs.counts())["q"].waiting == 5
    warning = (await store.peers())[0].warning
    assert warning is not None
    assert "BullMQ 5" in warning
    await turn(resumer, paused=False)
    assert [record.id for record in await claim(store, 9)] == ["a", "b", "c", "d", "e"]
