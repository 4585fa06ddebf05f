"""The proxy: public methods only, wrong names and arguments fail at once, guards stand around the call."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.pools.conftest import MakePool
from tests.pools.workers import Basic, Hooks
from workfleet.errors import ConfigError
from workfleet.model.declared import GuardSpec, add_guard
from workfleet.pools.declare import public
from workfleet.pools.options import ChildSpec
from workfleet.pools.proxy import pool_proxy


class Recorder:
    """Stands in for a pool: notes the calls."""

    name = "recorder"

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    async def call(self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        self.calls.append((method, tuple(args), dict(kwargs or {})))
        return "answer"

    async def stream(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        self.calls.append((method, tuple(args), dict(kwargs or {})))
        yield 1


async def test_the_real_thing(make_pool: MakePool) -> None:
    proxy = pool_proxy(Basic, make_pool(ChildSpec.of(Basic)).pool)
    assert await proxy.add(1, b=2) == 3
    assert await proxy.aadd(1, 2) == 3
    assert [item async for item in proxy.numbers(3)] == [0, 1, 2]
    assert [item async for item in proxy.anumbers(3)] == [0, 1, 2]


async def test_what_is_not_public_raises_at_once_and_lists_what_is() -> None:
    proxy = pool_proxy(Hooks, Recorder())
    for name in ("note", "begin", "journal", "scale", "_private", "wrod"):
        with pytest.raises(AttributeError, match=f"Hooks has no public method '{name}'. Public are: word$"):
            getattr(proxy, name)
    assert dir(proxy) == ["word"]
    assert repr(proxy) == "<pool 'recorder' of Hooks>"
    with pytest.raises(AttributeError):
        proxy.word = 1


async def test_wrong_arguments_raise_before_any_await() -> None:
    pool = Recorder()
    proxy = pool_proxy(Basic, pool)
    with pytest.raises(TypeError, match=r"Basic.add\(a: 'int', \*, b: 'int' = 1\).*: .*'c'"):
        proxy.add(1, c=2)
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        proxy.add()
    with pytest.raises(TypeError, match="too many positional arguments"):
        proxy.numbers(1, "mark", 3)
    assert pool.calls == []
    assert await proxy.add(1) == "answer"
    assert pool.calls == [("add", (1,), {})]
    assert list(inspect.signature(proxy.add).parameters) == ["a", "b"]
    assert proxy.begin.__doc__ == Basic.begin.__doc__


class Signatures:
    """Parameters of every kind."""

    @public
    def none(self) -> None: ...
    @public
    def plain(self, a: int, b: int = 1) -> None: ...
    @public
    def by_position(self, a: int, b: int = 1, /) -> None: ...
    @public
    def needs_name(self, a: int, *, b: int) -> None: ...
    @public
    def may_name(self, a: int, *, b: int = 1) -> None: ...
    @public
    def any_number(self, a: int, *more: int) -> None: ...
    @public
    def any_name(self, a: int = 1, **more: int) -> None: ...


@pytest.mark.parametrize("count", range(4))
@pytest.mark.parametrize("names", [(), ("b",), ("c",)])
@pytest.mark.parametrize("method", [name for name in vars(Signatures) if name[0] != "_"])
async def test_exactly_those_arguments_pass_that_python_would_take(
    method: str, names: tuple[str, ...], count: int
) -> None:
    pool, args, kwargs = Recorder(), tuple(range(count)), dict.fromkeys(names, 1)
    signature = inspect.signature(getattr(Signatures(), method))
    try:
        signature.bind(*args, **kwargs)
    except TypeError as refused:
        with pytest.raises(TypeError, match=re.escape(str(refused))):
            getattr(pool_proxy(Signatures, pool), method)(*args, **kwargs)
        assert pool.calls == []
    else:
        assert await getattr(pool_proxy(Signatures, pool), method)(*args, **kwargs) == "answer"
        assert pool.calls == [(method, args, kwargs)]


async def test_middleware_stands_around_each_call_and_is_made_once_per_method() -> None:
    made: list[str] = []

    def middleware(name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        made.append(name)

        async def around(*args: Any, **kwargs: Any) -> Any:
            return [name, args, kwargs, await call(*args, **kwargs)]

        return around

    proxy = pool_proxy(Hooks, Recorder(), middleware)
    assert await proxy.word("x") == ["word", ("x",), {}, "answer"]
    assert await proxy.word(word="y") == ["word", (), {"word": "y"}, "answer"]
    assert made == ["word"]


async def test_overridden_and_inherited_methods() -> None:
    class More(Hooks):
        @public
        def extra(self) -> int:
            return 1

        def word(self, word: str) -> None:  # type: ignore[override] # no longer public: it does not say so
            """Overridden."""

    assert dir(pool_proxy(More, Recorder())) == ["extra"]


async def test_classes_that_cannot_be_called() -> None:
    class Nothing:
        def method(self) -> None:
            """Not public."""

    with pytest.raises(ConfigError, match="no method is @public"):
        pool_proxy(Nothing, Recorder())

    class Guarded:
        @public
        def items(self) -> Any:
            yield 1

    add_guard(Guarded.items, GuardSpec("locked"))
    with pytest.raises(ConfigError, match=r"Guarded.items: a generator cannot have guards"):
        pool_proxy(Guarded, Recorder())
