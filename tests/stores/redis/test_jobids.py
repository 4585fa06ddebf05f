"""Ids of jobs in Redis: each is one key of its own, and what any program has stored is the job that is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.stores.redis.jobids import shown_id, stored_id
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import claim, finish, ids, jobs, state

PARTS = st.sampled_from(
    ["a", "wait", "wf", "de", "repeat", "%", "%77", "%25", "%3A", "ait", "é", ":", " ", "/", "%FF", "-"]
)
IDS = st.lists(PARTS, min_size=1, max_size=6).map("".join)


@given(IDS)
def test_there_and_back(job_id: str) -> None:
    assert shown_id(stored_id(job_id).encode()) == job_id
    if job_id.startswith("%") or stored_id(job_id) == job_id:
        # It can be one that is stored.
        assert stored_id(shown_id(job_id.encode())) == job_id


@pytest.mark.parametrize(
    ("job_id", "stored"),
    [
        ("7", "7"), ("a b%c", "a b%c"), ("wait", "%77ait"), ("%77ait", "%2577ait"), ("%41", "%41"), ("a:b", "%61%3Ab"),
        ("a:b:c", "a:b:c"), ("repeat:x:1", "repeat:x:1"), ("repeat:é:x:1", "repeat:é:x:1"),
        ("wf:queue:claims", "%77f%3Aqueue%3Aclaims"), ("de:a:b", "%64e%3Aa%3Ab"), ("a:b:logs", "%61%3Ab%3Alogs"),
        (":a:b", ":a:b"), ("failed:a:b", "failed:a:b"),
    ],
)  # fmt: skip
def test_how_they_are_stored(job_id: str, stored: str) -> None:
    assert stored_id(job_id) == stored


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=SystemClock())
    yield opened
    await opened.close()


@pytest.mark.parametrize("job_id", ["a:b:c", "%41bc", "%", "100%", "é:%:c"])
async def test_a_job_that_another_program_stored_so_ends(job_id: str, store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue(jobs("other"))
    said = ("name", "work", "data", "1", "opts", "{}", "timestamp", 1, "delay", 0, "priority", 0)
    server.ask("HSET", f"shop:q:{job_id}", *said)
    server.ask("LPUSH", "shop:q:wait", job_id)
    taken = await claim(store, 2)
    assert ids(taken) == f"other {job_id}"
    await finish(store, taken)
    assert await state(store, job_id) == "completed"
    assert await store.jobs.delete([job_id]) == [True]
    assert server.ask("EXISTS", f"shop:q:{job_id}") == 0
