"""The fault walk on Redis: a worker lives through its jobs while each call loses its connection once, before the server
has it, after, and in the middle of the reply. Every other call under way is lost with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.fast import FastClock, FastLoop
from tests.faults.life import Life
from tests.stores.redis.proxy import Proxy, When
from tests.stores.redis.servers import Server
from workfleet.errors import StoreUnavailable
from workfleet.stores.redis.store import RedisStore

MOST = 2
"""So many calls of each script are lost, one a life."""
LIVES = 8
"""In so many lives at the most it is waited for."""
KNOWN = {"enqueue", "cycle", "report", "takeover", "schedule_fire", "schedule_merge", "worker_register", "pulse",
         "lock_acquire", "lock_release", "key_put", "operate", "cancels", "prune", "counts"}  # fmt: skip


class Walk:
    """Lives on a server, each on an empty one."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.lost: list[str] = []
        self.wrong: list[str] = []

    def live(self, name: str = "", number: int = 0, when: When = "before") -> Counter[str]:
        """One life. Returns the calls that reached the network."""
        with asyncio.Runner(loop_factory=FastLoop) as runner:
            return runner.run(self._live(name, number, when))

    async def _live(self, name: str, number: int, when: When) -> Counter[str]:
        self.server.ask("FLUSHALL")
        clock = FastClock()
        async with Proxy(self.server.port) as proxy:
            through = await self._opened(proxy.url, clock)
            beside = await self._opened(self.server.url, clock)
            try:
                life = Life(through, clock)
                # Who judges is on a network that works.
                life.inner = beside
                note_failures(life)
                if name:
                    proxy.lose(name, number=proxy.calls[name] + number, when=when)
                self.wrong += [f"{name} {number} {when}: {wrong}" for wrong in await life.live()]
            finally:
                await beside.close()
            self.lost += proxy.lost
            return proxy.calls

    async def _opened(self, url: str, clock: FastClock) -> RedisStore:
        for _ in range(4):
            # On a busy machine the fast time of a life may be over before the server has answered.
            with suppress(StoreUnavailable):
                return await RedisStore.open(url, app="walk", clock=clock, test_now_ms=clock.now_ms)
        return await RedisStore.open(url, app="walk", clock=clock, test_now_ms=clock.now_ms)


def note_failures(life: Life) -> None:
    """A lost connection fails calls that nobody asked to fail: they are noted like those that were."""
    call, failed = life.store._call, life.store.failed

    async def noted(name: str, wanted: Callable[[], Awaitable[object]]) -> object:
        try:
            return await call(name, wanted)
        except StoreUnavailable:
            failed.append(f"{name} lost")
            raise
        except asyncio.CancelledError:
            # Nobody waits for long at the end of a lock: it expires by itself.
            if name == "locks.release":
                failed.append(f"{name} given up")
            raise

    life.store._call = noted  # type: ignore[method-assign]


@pytest.fixture
def walk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Walk:
    monkeypatch.chdir(tmp_path)
    return Walk(server)


def test_a_life_without_a_fault(walk: Walk) -> None:
    calls = walk.live()
    assert walk.wrong == []
    assert set(calls) >= KNOWN, "the life has become shorter"


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("when", ["before", "after", "within"])
def test_each_call_is_lost_once(walk: Walk, when: When) -> None:
    calls = walk.live()
    assert walk.wrong == []
    scripts = sorted(name for name in calls if name.islower() or name in ("TIME", "SET"))
    for name in scripts:
        # Claims and settles are one script, and most of what there is.
        for number in range(1, min(calls[name], MOST * 4 if name == "cycle" else MOST) + 1):
            met = len(walk.lost)
            for _ in range(LIVES):
                # What a worker asks only when it has nothing else to do is not asked in every life.
                walk.live(name, number, when)
                if len(walk.lost) > met:
                    break
    assert walk.wrong == []
    assert {lost.split()[0] for lost in walk.lost} == set(scripts), "there are calls that never met their fault"
