"""Pools of real children for one test each, with the events that they published. None may be left afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.pools.support import Made, wait_until
from workfleet.clock import SystemClock
from workfleet.events import Event
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.pool import ProcessPool

MakePool = Callable[..., Made]


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Children start several times as fast where somebody has turned compiled files off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture
async def make_pool() -> AsyncIterator[MakePool]:
    """`make_pool(spec, **options)`: a started pool. Stopped after the test; then nothing of it may run."""
    made: list[Made] = []

    def make(spec: ChildSpec, *, size: int = 1, **options: Any) -> Made:
        events: list[Event] = []
        lines: list[tuple[str, str]] = []
        pool = ProcessPool(
            spec,
            PoolOptions(name="test", size=size, **options),
            clock=SystemClock(),
            publish=events.append,
            on_output=lambda line, stream, pid: lines.append((stream, line)),
            draw=lambda: 1.0,
        )
        pool.start()
        made.append(Made(pool, events, lines))
        return made[-1]

    before = set(psutil.Process().children(recursive=True))
    yield make
    for one in made:
        await one.pool.stop(5_000)
    await wait_until(lambda: set(psutil.Process().children(recursive=True)) <= before)
