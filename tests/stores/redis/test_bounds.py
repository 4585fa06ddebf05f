"""However many jobs there are, no call looks at many of them: others wait while a script runs."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import hiredis
import pytest
import pytest_asyncio

from tests.stores.redis.proxy import Proxy
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.jobs import JobRecord, JobState
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import claim, finish

_MANY = 2_500
_LISTED, _DELETED = 1_000, 100


class Watched:
    """What the server was asked, and what its scripts did."""

    def __init__(self) -> None:
        self.calls: list[set[bytes]] = []
        """The jobs that each script touched."""

    def add(self, line: bytes) -> None:
        words = line.split(b'"')
        if b" lua]" not in words[0]:
            self.calls.append(set())
        elif len(words) > 3 and (key := words[3]).startswith(b"shop:q:j"):
            self.calls[-1].add(key.split(b":")[2])

    def most(self) -> int:
        return max(len(touched) for touched in self.calls)


@contextmanager
def watching(server: Server) -> Iterator[Watched]:
    """Within the block, what the server does is written down; it is complete at the end."""
    watched, reader = Watched(), hiredis.Reader()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as asked:
        asked.sendall(hiredis.pack_command(("MONITOR",)))

        def read() -> Iterator[bytes]:
            while True:
                while (line := reader.gets()) is not False:
                    assert isinstance(line, bytes)
                    yield line
                reader.feed(asked.recv(1_000_000))

        lines = read()
        assert next(lines) == b"OK"
        yield watched
        server.ask("ECHO", "the end")
        for line in lines:
            if b'"the end"' in line:
                return
            watched.add(line)


@pytest_asyncio.fixture
async def store(server: Server) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock())
    yield store
    await store.close()


async def add(store: RedisStore, kind: str, **said: object) -> None:
    for at in range(0, _MANY, 500):
        await store.jobs.enqueue([job(f"j{kind}{at + i:05}", **said) for i in range(500)])


def job(job_id: str, **said: object) -> JobRecord:
    return JobRecord(**{"id": job_id, "queue": "q", "name": "work", **said})  # type: ignore[arg-type]


async def fill(store: RedisStore) -> None:
    """Some of each kind: waiting, prioritized, delayed, of a group."""
    await add(store, "w")
    await add(store, "p", priority=3)
    await add(store, "d", delay_ms=86_400_000)
    await add(store, "g", group="a")


async def test_finding_and_counting(store: RedisStore, server: Server) -> None:
    await fill(store)
    with watching(server) as watched:
        newest = await store.jobs.find(JobQuery(limit=3))
        delayed = await store.jobs.find(JobQuery("q", (JobState.DELAYED,), limit=10_000))
        waiting = await store.jobs.find(JobQuery("q", (JobState.WAITING,), limit=10_000, text="nothing"))
        of_group = await store.jobs.find(JobQuery(group="a", limit=10_000))
        counted = (await store.jobs.counts())["q"]
    assert [record.id[:2] for record in newest] == ["jg"] * 3
    assert sorted(record.id for record in delayed) == [f"jd{i:05}" for i in range(_MANY)]
    assert waiting == []
    assert sorted(record.id for record in of_group) == [f"jg{i:05}" for i in range(_MANY)]
    assert (counted.waiting, counted.prioritized, counted.delayed) == (2 * _MANY, _MANY, _MANY)
    assert len(watched.calls) > 4 * _MANY / _LISTED
    assert watched.most() <= _LISTED


@pytest.mark.full
async def test_the_newest_of_many_and_a_rare_one_among_them(server: Server) -> None:
    received = [0]

    def counted(reply: bytes) -> bytes:
        received[0] += len(reply)
        return reply

    async with Proxy(server.port) as proxy:
        store = await RedisStore.open(proxy.url, app="shop", clock=SystemClock())
        await store.jobs.enqueue([job("odd", name="odd")])
        await fill(store)
        everything = [record.id for record in await store.jobs.find(JobQuery(limit=100_000))]
        assert (len(everything), everything[-1]) == (4 * _MANY + 1, "odd")
        for offset, limit in ((0, 3), (990, 30), (4 * _MANY, 5)):
            found = await store.jobs.find(JobQuery(limit=limit, offset=offset))
            assert [record.id for record in found] == everything[offset : offset + limit]
        assert [record.id for record in await store.jobs.find(JobQuery(name="odd", limit=5))] == ["odd"]
        middle = (await store.jobs.get([everything[5_000]]))[0]
        assert middle is not None
        since = await store.jobs.find(JobQuery(created_from_ms=middle.created_ms, limit=7, offset=4_990))
        assert [record.id for record in since] == everything[4_990:4_997]
        proxy.changed = counted
        await store.jobs.find(JobQuery("q", (JobState.WAITING, JobState.PRIORITIZED), limit=3))
        few, received[0] = received[0], 0
        await store.jobs.find(JobQuery("q", (JobState.WAITING, JobState.PRIORITIZED), text="nothing", limit=3))
        # Who is older than enough others is not told of.
        assert few < received[0] / 3
        await store.close()


async def test_purging(store: RedisStore, server: Server) -> None:
    await fill(store)
    with watching(server) as watched:
        assert await store.jobs.purge("q", [JobState.DELAYED], limit=2 * _MANY) == _MANY
        assert await store.jobs.purge("q", [JobState.WAITING], limit=700) == 700
        assert await store.jobs.purge("q", list(JobState), limit=10 * _MANY) == 3 * _MANY - 700
    assert (await store.jobs.counts())["q"].waiting == 0
    assert await store.jobs.find(JobQuery()) == []
    # With each also the one that is in the middle of the list, to know from where to look for it.
    assert watched.most() <= 2 * _DELETED


async def test_the_first_in_are_purged_first(store: RedisStore) -> None:
    await add(store, "w")
    assert await store.jobs.purge("q", [JobState.WAITING], limit=600) == 600
    left = await store.jobs.find(JobQuery(limit=10_000))
    assert sorted(record.id for record in left) == [f"jw{i:05}" for i in range(600, _MANY)]


async def test_pruning(store: RedisStore, server: Server) -> None:
    await add(store, "w")
    while taken := await claim(store, 500):
        await finish(store, taken)
    with watching(server) as watched:
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=1_000)], limit=10_000) == _MANY - 1_000
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=300)], limit=600) == 600
        assert await store.jobs.prune([PruneRule(JobState.COMPLETED, count=300)], limit=600) == 100
    assert (await store.jobs.counts())["q"].completed == 300
    assert watched.most() <= 2 * _DELETED


async def test_operating_on_many(store: RedisStore, server: Server) -> None:
    await add(store, "w")
    names = [f"jw{i:05}" for i in range(_MANY)]
    with watching(server) as watched:
        assert set(await store.jobs.cancel(names)) == {"cancelled"}
        assert await store.jobs.retry(names) == [True] * _MANY
        assert await store.jobs.delete(names) == [True] * _MANY
    assert await store.jobs.find(JobQuery()) == []
    assert watched.most() <= 2 * _DELETED
