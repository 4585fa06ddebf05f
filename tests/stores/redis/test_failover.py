"""A primary, its replicas and three sentinels: the primary is killed while work goes on. What was replicated is kept,
what is there is consistent, and it goes on by itself."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.redis.servers import Server
from tests.stores.redis.test_topologies import until
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.ids import new_token
from workfleet.model.fleet import LockGrant
from workfleet.model.jobs import FINISHED, JobState
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.jobs import JobQuery, TakeOver
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import ended, inconsistencies, job, request

pytestmark = pytest.mark.full
LEASE_MS = 3_000
QUORUM = 2


class Group:
    """The servers of one service."""

    def __init__(self, folders: Iterator[Path], binary: str) -> None:
        self.primary = Server(next(folders), binary=binary)
        of = ("--replicaof", "127.0.0.1", str(self.primary.port))
        self.replicas = [Server(next(folders), *of, binary=binary) for _ in range(2)]
        self.sentinels = [self._sentinel(next(folders), binary) for _ in range(3)]
        self.url = f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/main/0"

    def _sentinel(self, folder: Path, binary: str) -> Server:
        rules = folder / "sentinel.conf"
        rules.write_text(
            f"sentinel monitor main 127.0.0.1 {self.primary.port} {QUORUM}\n"
            "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n"
        )
        return Server(folder, sentinel=rules, binary=binary)

    @property
    def all(self) -> list[Server]:
        return [self.primary, *self.replicas, *self.sentinels]

    async def is_up(self) -> bool:
        """Whether every sentinel knows every replica and both others."""
        for sentinel in self.sentinels:
            known = await asyncio.to_thread(sentinel.ask, "SENTINEL", "REPLICAS", "main")
            others = await asyncio.to_thread(sentinel.ask, "SENTINEL", "SENTINELS", "main")
            if len(known) < 2 or len(others) < 2 or b"s_down" in repr(known).encode():  # type: ignore[arg-type]
                return False
        return True

    async def offsets(self) -> tuple[int, ...]:
        """How far the primary is, and each replica."""
        said = await asyncio.to_thread(self.primary.ask, "INFO", "replication")
        found = re.findall(r"(master_repl_offset:|,offset=)(\d+)", str(said))
        own = [int(number) for what, number in found if what.startswith("master")]
        return (*own, *(int(number) for what, number in found if what.startswith(",")))


@pytest.fixture
def group(tmp_path_factory: pytest.TempPathFactory, binary: str) -> Iterator[Group]:
    made = Group(iter(lambda: tmp_path_factory.mktemp("r"), None), binary)
    for each in made.all:
        each.start()
    yield made
    for each in made.all:
        each.stop()


class Work:
    """Jobs that come and are worked off, one by one, with what was acknowledged of it."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.enqueued: list[str] = []
        self.finished: list[str] = []
        self.runs: Counter[str] = Counter()
        self.over = asyncio.Event()

    async def enqueue(self) -> None:
        while not self.over.is_set():
            job_id, call = f"j{len(self.enqueued)}", new_token()
            try:
                await self.store.jobs.enqueue([job(job_id)], call=call)
                self.enqueued.append(job_id)
            except StoreUnavailable:
                pass
            await asyncio.sleep(0.02)

    async def consume(self) -> None:
        while not self.over.is_set():
            try:
                claimed = await self.store.jobs.claim(request(3, lease_ms=LEASE_MS))
            except StoreUnavailable:
                claimed = []
            for record in claimed:
                self.runs[record.id] += 1
                if await self._settled(record):
                    self.finished.append(record.id)
            await asyncio.sleep(0.01)

    async def _settled(self, record: object) -> bool:
        while not self.over.is_set():
            try:
                return (await self.store.jobs.settle([ended(record)])).applied == [True]  # type: ignore[arg-type]
            except StoreUnavailable:
                await asyncio.sleep(0.02)
        return False

    async def recover(self) -> None:
        while not self.over.is_set():
            try:
                taken = await self.store.jobs.take_over(TakeOver("reaper", new_token(), LEASE_MS))
                await self.store.jobs.settle([ended(each, GIVE_BACK) for each in taken])
            except StoreUnavailable:
                pass
            await asyncio.sleep(0.3)


async def test_the_primary_is_killed_while_work_goes_on(group: Group) -> None:
    await until(group.is_up)
    store = await RedisStore.open(group.url, app="shop", clock=SystemClock())
    work = Work(store)
    tasks = [asyncio.create_task(each()) for each in (work.enqueue, work.consume, work.recover)]
    try:
        fence = await store.locks.acquire("l", "me", 600_000)
        assert isinstance(fence, LockGrant)
        await more(work, 50)
        safe = set(work.finished), set(work.enqueued)
        reached, *_ = await group.offsets()
        await until(lambda: has_all(group, reached))
        # The sentinel that is asked first dies with it.
        group.primary.stop()
        group.sentinels[0].stop()
        await more(work, 100)
        await asyncio.to_thread(group.primary.start)
        await more(work, 50)
        await until(lambda: follows(group))
        await more(work, 20)
        tasks[0].cancel()
        await until(lambda: drained(store))
        work.over.set()
        await asyncio.wait(tasks)
        await judged(store, work, safe)
        later = await store.locks.acquire("other", "me", 600_000)
        assert isinstance(later, LockGrant)
        assert later.fence > fence.fence
        assert [each.owner for each in await store.locks.held()] == ["me", "me"]
    finally:
        work.over.set()
        for task in tasks:
            task.cancel()
        await store.close()


async def judged(store: RedisStore, work: Work, safe: tuple[set[str], set[str]]) -> None:
    """What had been replicated happened once and is there; what is there is whole."""
    finished, enqueued = safe
    assert await inconsistencies(store) == []
    there = {each.id: each for each in await store.jobs.find(JobQuery(limit=100_000))}
    assert enqueued <= set(there)
    assert all(there[job_id].state is JobState.COMPLETED for job_id in finished)
    assert [job_id for job_id in finished if work.runs[job_id] != 1] == []
    lost = set(work.enqueued) - set(there)
    assert len(lost) <= 5, "more than the tail was lost"
    assert {each.state for each in there.values()} == {JobState.COMPLETED}


async def more(work: Work, count: int) -> None:
    """Wait for so many more to be finished."""
    wanted = len(work.finished) + count

    async def enough() -> bool:
        return len(work.finished) >= wanted

    await until(enough)


async def has_all(group: Group, reached: int) -> bool:
    _, *replicas = await group.offsets()
    return len(replicas) == 2 and min(replicas) >= reached


async def drained(store: RedisStore) -> bool:
    states = tuple(state for state in JobState if state not in FINISHED)
    return not await store.jobs.find(JobQuery(states=states, limit=1))


async def follows(group: Group) -> bool:
    """Whether the old primary is a replica now."""
    role = await asyncio.to_thread(group.primary.ask, "ROLE")
    return isinstance(role, list) and role[0] in (b"slave", b"replica")
