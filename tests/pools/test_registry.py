"""All pools of a process: got by class, steered by class or name, closed together."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.pools.support import wait_until
from tests.pools.workers import Basic, Hooks, SlowShutdown
from workfleet.clock import SystemClock
from workfleet.errors import ConfigError, NotFound, PayloadRejected, PoolError, UsageError
from workfleet.events import ChildPrinted, Event
from workfleet.model.declared import marked
from workfleet.pools.declare import process, public
from workfleet.pools.marks import ProcessMark, ProcessOptions
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.reading import merged
from workfleet.pools.registry import Pools, PoolSetup


def configure(worker: type[Any], options: ProcessOptions) -> PoolSetup:
    mark = marked(worker, ProcessMark)
    assert mark is not None
    written: Any = {**mark.options, **options}
    return PoolSetup(ChildSpec.of(worker), merged(PoolOptions(name="", size=1), mark.name, written, processes=1))


@pytest.fixture
async def pools() -> AsyncIterator[tuple[Pools, list[Event]]]:
    events: list[Event] = []
    made = Pools(configure, clock=SystemClock(), publish=events.append)
    yield made, events
    await made.aclose(5_000)


async def test_got_or_started_by_class(pools: tuple[Pools, list[Event]]) -> None:
    registry, events = pools
    basic = await registry.pool(Basic, size=1)
    assert await basic.add(1, b=2) == 3
    assert await registry.pool(Basic) is basic
    assert await registry.pool(Basic, size=1) is basic
    assert registry.list() == ("basic",)
    with pytest.raises(UsageError, match="exists with size=1: it cannot have size=2"):
        await registry.pool(Basic, size=2)
    await registry.scale(Basic, 2)
    await wait_until(lambda: registry.stats()["basic"].ready == 2)
    await registry.scale("basic", 1)
    await wait_until(lambda: len(registry.stats()["basic"].pids) == 1)
    await basic.chatter(2)
    await wait_until(lambda: len([e for e in events if isinstance(e, ChildPrinted)]) == 2)
    (pid,) = registry.stats()["basic"].pids
    printed = [event for event in events if isinstance(event, ChildPrinted)]
    assert printed[0] == ChildPrinted(pool="basic", pid=pid, stream="stdout", line="line 0")
    await registry.recycle("basic")
    await wait_until(lambda: registry.stats()["basic"].pids not in ((), (pid,)))
    assert await registry.drain("basic", "5s") == 0
    with pytest.raises(PoolError, match="draining"):
        await basic.pid()


async def test_declared_pools_are_started_together(pools: tuple[Pools, list[Event]]) -> None:
    registry, _ = pools
    basic = registry.declare(Basic)
    cpu = registry.add(ChildSpec("tests.pools.light:Light"), PoolOptions(name="cpu", size=1))
    assert registry.list() == ("basic", "cpu")
    assert {name: stats.state for name, stats in registry.stats().items()} == {"basic": "new", "cpu": "new"}
    registry.start()
    assert registry.stats()["cpu"].state == "starting"
    assert await basic.echo(1) == 1
    assert await cpu.call("echo", (2,)) == 2
    assert registry.get("cpu") is cpu
    assert await registry.aclose(5_000) == 0
    assert {stats.state for stats in registry.stats().values()} == {"stopped"}


async def test_a_declared_pool_starts_with_its_first_call(pools: tuple[Pools, list[Event]]) -> None:
    registry, _ = pools
    assert await registry.declare(Basic, size=1).echo(1) == 1
    assert registry.stats()["basic"].state == "running"


async def test_options_may_be_given_until_the_pool_has_started(pools: tuple[Pools, list[Event]]) -> None:
    registry, _ = pools
    injected = registry.declare(Basic)
    basic = await registry.pool(Basic, size=2)
    assert basic is injected
    assert await injected.add(1, b=2) == 3
    await wait_until(lambda: registry.stats()["basic"].ready == 2)
    with pytest.raises(UsageError, match="exists with size=2: it cannot have size=1"):
        await registry.pool(Basic, size=1)
    assert registry.list() == ("basic",)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"strategy": "round_robin"}, "strategy='least_busy'"),
        ({"isolation": "thread"}, "isolation='process'"),
        ({"min_size": 1, "max_size": 2, "size": 1}, "min_size=None"),
        ({"max_queue": 7}, "queue_limit=1000"),
        ({"strategy": "consistent_hash", "hash_key": "{value}"}, "(strategy='least_busy'|hash_key=None)"),
    ],
)
async def test_a_pool_that_has_started_cannot_get_other_options(
    pools: tuple[Pools, list[Event]], said: Any, field: str
) -> None:
    registry, _ = pools
    echo = await registry.pool(Echo)
    with pytest.raises(UsageError, match=f"pool 'echo' exists with {field}: it cannot have"):
        await registry.pool(Echo, **said)
    assert await echo.echo(1) == 1


async def test_other_options_before_the_start_hold_for_the_injected_proxy_too(
    pools: tuple[Pools, list[Event]],
) -> None:
    registry, _ = pools
    injected = registry.declare(Echo)
    await registry.pool(Echo, isolation="inline", strategy="consistent_hash", hash_key="value")
    assert await injected.echo(1) == 1
    with pytest.raises(PayloadRejected, match=r"arguments of echo\.echo: .*they give no hash_key"):
        await injected.echo(None)
    assert registry.stats()["echo"].pids == (os.getpid(),)
    with pytest.raises(ConfigError, match=r"Hooks\.word: hash_key of pool 'hooks'"):
        registry.declare(Hooks, strategy="consistent_hash", hash_key="value")


async def test_what_is_refused(pools: tuple[Pools, list[Event]]) -> None:
    registry, _ = pools
    registry.declare(Basic)
    with pytest.raises(NotFound, match=r"there is no pool 'basics'\. Pools: basic"):
        await registry.scale("basics", 2)
    with pytest.raises(NotFound, match="there is no pool 'SlowShutdown'"):
        registry.get(SlowShutdown)
    with pytest.raises(PoolError, match="does not run"):
        await registry.scale("basic", 2)
    with pytest.raises(ConfigError, match="two pools of this name"):
        registry.add(ChildSpec("x:y"), PoolOptions(name="basic", size=1))

    with pytest.raises(ConfigError, match="no method is @public"):
        registry.declare(Silent)
    assert registry.list() == ("basic",)
    assert registry.declare(Hooks) is registry.declare(Hooks)


@process("echo", size=1)
class Echo:
    @public
    def echo(self, value: object) -> object:
        return value


@process("silent")
class Silent:
    """Has nothing to call."""
