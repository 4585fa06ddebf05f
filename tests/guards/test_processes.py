"""Guards whose state the fleet shares, with real processes on one store, and one that is really killed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest_asyncio

ROOT = Path(__file__).parents[2]


class Child:
    """A process that calls what it is told to."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def call(self, name: str, kind: str = "works") -> str:
        """Call it, and what came of that."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name} {kind}\n".encode())
        return await self.heard()

    async def heard(self) -> str:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        return line.decode().strip()


Start = Callable[[], Awaitable[Child]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    children: list[Child] = []
    with TemporaryDirectory(prefix="wf-") as folder:

        async def start_child() -> Child:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.guards.child", str(Path(folder) / "store.db"),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
            )  # fmt: skip
            child = Child(process)
            children.append(child)
            assert await child.heard() == "ready"
            return child

        yield start_child
        for child in children:
            if child.process.returncode is None:
                child.process.kill()
            await child.process.communicate()


async def test_a_rate_is_exact_over_processes(start: Start) -> None:
    children = await asyncio.gather(start(), start(), start())

    async def calls(child: Child) -> list[str]:
        return [await child.call("limited") for _ in range(8)]

    came = Counter(each for some in await asyncio.gather(*map(calls, children)) for each in some)
    assert came == {"None": 10, "RateLimited": 14}


async def test_concurrent_duplicates_in_several_processes_share_one_run(start: Start) -> None:
    children = await asyncio.gather(start(), start(), start())
    came = await asyncio.gather(*(child.call("once") for child in children))
    again = await asyncio.gather(*(child.call("once") for child in children))
    assert set(came) == set(again)
    (pid,) = set(came)
    assert pid in {str(child.process.pid) for child in children}


async def test_a_probe_whose_process_is_killed_frees_its_lease(start: Start) -> None:
    dying, other, third = await asyncio.gather(start(), start(), start())
    assert [await child.call("fragile", "fails") for child in (dying, other, third)] == ["down"] * 3
    assert await other.call("fragile") == "CircuitOpen"
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60):
        began = loop.time()
        while (said := await dying.call("fragile", "hangs")) != "hanging":
            assert said == "CircuitOpen"
            began = loop.time()
    dying.process.kill()
    await dying.process.wait()
    async with asyncio.timeout(60):
        while await other.call("fragile") == "CircuitOpen":
            pass
    assert loop.time() - began > 1, "its lease had lasted"
    assert await third.call("fragile") == "None"
