"""The decorators record, and give back what can be called directly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.pools.workers import Basic
from workfleet.errors import ConfigError, MisplacedGuard
from workfleet.model.declared import GuardSpec, add_guard, guards_of, marked
from workfleet.pools.child_target import Target
from workfleet.pools.declare import health_check, on_shutdown, on_start, process, public
from workfleet.pools.marks import HealthMark, HookMark, ProcessMark, PublicMark, public_methods
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.reading import merged
from workfleet.units import Size


@process("images", size=8, memory="512MB", call_timeout=None)
class Images:
    """Decorated with everything."""

    @public
    def plain(self, a: int) -> int:
        return a + 1

    @public
    async def coroutine(self, a: int) -> int:
        return a + 2

    @public
    def generator(self) -> Iterator[int]:
        yield 1

    @public
    async def agenerator(self) -> AsyncIterator[int]:
        yield 2

    @on_start
    def start(self) -> None: ...

    @on_shutdown
    def stop(self) -> None: ...

    @health_check
    def well(self) -> bool:
        return True


async def test_a_plain_instance_may_stand_in_for_a_pool() -> None:
    images = Images()
    assert await images.plain(1) == 2
    assert await images.coroutine(1) == 3
    assert [item async for item in images.generator()] == [1]
    assert [item async for item in images.agenerator()] == [2]


def test_the_child_runs_what_was_written() -> None:
    target = Target(Images())
    assert target.kinds == {
        "plain": "sync",
        "coroutine": "async",
        "generator": "generator",
        "agenerator": "async generator",
        "start": "sync",
        "stop": "sync",
        "well": "sync",
    }
    assert target.method("plain")[1](5) == 6


def test_marks() -> None:
    spec = marked(Images, ProcessMark)
    assert spec == ProcessMark("images", {"size": 8, "memory": "512MB", "call_timeout": None})
    assert sorted(public_methods(Images)) == ["agenerator", "coroutine", "generator", "plain"]
    assert marked(Images.start, HookMark) == HookMark("start")
    assert marked(Images.stop, HookMark) == HookMark("shutdown")
    assert marked(Images.well, HealthMark) == HealthMark()

    @process()
    class Named: ...

    named = marked(Named, ProcessMark)
    assert named is not None
    assert named.name == "Named"


async def test_guards_stay_on_the_public_method() -> None:
    def guarded(self: Any) -> int:
        return 1

    wrapped = add_guard(add_guard(guarded, GuardSpec("inner")), GuardSpec("outer"))
    with pytest.raises(MisplacedGuard):
        wrapped(None)
    method: Any = public(wrapped)
    assert [guard.kind for guard in guards_of(method)] == ["outer", "inner"]
    assert await method(None) == 1
    assert marked(method, PublicMark) == PublicMark(guarded, method)


def test_an_iterator_that_is_no_generator_is_refused() -> None:
    with pytest.raises(TypeError, match="returns an iterator but is no generator"):

        class Wrong:
            @public
            def items(self) -> Iterator[int]:
                return iter([1])


def test_classes_that_a_child_cannot_import() -> None:
    class Local: ...

    with pytest.raises(ConfigError, match="it is made inside a function"):
        ChildSpec.of(Local)
    hidden = type("Basic", (), {"__module__": Basic.__module__})
    with pytest.raises(ConfigError, match="something else"):
        ChildSpec.of(hidden)
    script = type("Script", (), {"__module__": "__main__"})
    with pytest.raises(ConfigError, match="its module is the program itself"):
        ChildSpec.of(script)
    assert ChildSpec.of(Basic).args == ("tests.pools.workers", "Basic")


def test_written_options_go_over_the_defaults() -> None:
    defaults = PoolOptions(name="", size=3, queue_limit=7)
    options = merged(
        defaults,
        "images",
        {"memory": "512MB", "call_timeout": "2m", "graceful_timeout": "5s", "startup_timeout": "1m"},
        processes=1,
    )
    assert (options.name, options.size, options.queue_limit) == ("images", 3, 7)
    assert (options.memory_bytes, options.soft_limit_bytes) == (512_000_000, 409_600_000)
    assert (options.call_timeout_ms, options.graceful_timeout_ms, options.startup_timeout_ms) == (
        120_000,
        5_000,
        60_000,
    )
    sized = merged(defaults, "images", {"memory": Size("1MB"), "max_queue": 0}, processes=1)  # type: ignore[typeddict-item]
    assert (sized.memory_bytes, sized.queue_limit) == (1_000_000, 0)
    off = merged(options, "images", {"memory": None, "call_timeout": None, "size": "auto"}, processes=1_000)
    assert (off.memory_bytes, off.call_timeout_ms, off.size) == (None, None, 1)


def test_all_wrong_options_are_told_at_once() -> None:
    wrong: Any = {"memory": "12 bananas", "size": 0, "call_timeout": "-1s", "speed": 3, "max_queue": True}
    with pytest.raises(ConfigError) as caught:
        merged(PoolOptions(name="", size=1), "images", wrong, processes=1)
    assert [problem.name for problem in caught.value.problems] == [f"pool images: {name}" for name in wrong]
    assert "there is no such option" in str(caught.value)
