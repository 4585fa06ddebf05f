"""What a user holds in place of the object: its public methods, each a call into the pool, and no names of its own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from workfleet.errors import ConfigError, Problem
from workfleet.model.declared import guards_of
from workfleet.pools.marks import PublicMark, public_methods

Middleware = Callable[[str, Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]
"""Given a method's name and what calls it, gives what is called instead. Applied once per method."""


class Callee(Protocol):
    """What runs the calls."""

    name: str

    async def call(self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any: ...
    def stream(
        self, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]: ...


def pool_proxy(worker: type[Any], pool: Callee, middleware: Middleware | None = None) -> Any:
    """An object with the public methods of `worker`. Wrong names and wrong arguments raise at once, before any await.

    Raises `ConfigError` when no method is public, or when a generator has guards: they act around one awaited call.
    """
    problems = proxy_problems(worker, pool.name)
    if problems:
        raise ConfigError(problems)
    methods: dict[str, Callable[..., Any]] = {}
    for name, mark in public_methods(worker).items():
        streams = is_stream(mark)
        call = asked = _streamer(pool, name) if streams else _caller(pool, name)
        if middleware is not None and not streams:
            call = middleware(name, call)
        methods[name] = _checked(mark.fn, call) if streams or call is not asked else _checked_call(mark.fn, pool, name)
    public = ", ".join(sorted(methods))

    class Proxy:
        __slots__ = ()

        def __getattr__(self, name: str) -> Callable[..., Any]:
            raise AttributeError(f"{worker.__qualname__} has no public method {name!r}. Public are: {public}")

        def __dir__(self) -> list[str]:
            return sorted(methods)

        def __repr__(self) -> str:
            return f"<pool {pool.name!r} of {worker.__qualname__}>"

    for name, method in methods.items():
        setattr(Proxy, name, staticmethod(method))
    return Proxy()


def is_stream(mark: PublicMark) -> bool:
    """Whether a method is a generator, whose items come one by one."""
    return inspect.isgeneratorfunction(mark.fn) or inspect.isasyncgenfunction(mark.fn)


def proxy_problems(worker: type[Any], pool: str) -> list[Problem]:
    """What `pool_proxy` refuses in a class."""
    methods = public_methods(worker)
    if not methods:
        problem = f"pool {pool!r} could not be called: no method is @public"
        return [Problem(f"{worker.__module__}.{worker.__qualname__}", problem)]
    return [
        Problem(f"{worker.__qualname__}.{name}", "a generator cannot have guards: remove them")
        for name, mark in methods.items()
        if is_stream(mark) and guards_of(getattr(worker, name))
    ]


def _caller(pool: Callee, name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Awaitable[Any]:
        return pool.call(name, args, kwargs)

    return call


def _streamer(pool: Callee, name: str) -> Callable[..., Any]:
    def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        return pool.stream(name, args, kwargs)

    return stream


def _checked(fn: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, after the arguments were seen to fit `fn` without its self."""
    signature = _signature(fn)
    fitting = _fitting(list(signature.parameters.values()))

    def checked(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) not in fitting:
            _bind(fn, signature, args, kwargs)
        return call(*args, **kwargs)

    return _dressed(checked, fn, signature)


def _checked_call(fn: Callable[..., Any], pool: Callee, name: str) -> Callable[..., Any]:
    """The same for a method that nothing stands around: most are, and so each costs no further step."""
    signature = _signature(fn)
    fitting = _fitting(list(signature.parameters.values()))

    def checked(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) not in fitting:
            _bind(fn, signature, args, kwargs)
        return pool.call(name, args, kwargs)

    return _dressed(checked, fn, signature)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Without self."""
    written = inspect.signature(fn)
    return written.replace(parameters=list(written.parameters.values())[1:])


def _bind(fn: Callable[..., Any], signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{fn.__qualname__}{signature}: {error}") from None


def _dressed(checked: Any, fn: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    checked.__name__, checked.__qualname__, checked.__doc__ = fn.__name__, fn.__qualname__, fn.__doc__
    checked.__signature__ = signature
    dressed: Callable[..., Any] = checked
    return dressed


def _fitting(parameters: Sequence[inspect.Parameter]) -> range:
    """How many arguments by position, and none by name, fit these parameters: such a call need not be bound."""
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = sum(each.default is each.empty for each in positional)
    if any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters):
        return range(0)
    endless = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    return range(needed, sys.maxsize if endless else len(positional) + 1)
