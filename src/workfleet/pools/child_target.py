"""What a child serves: the object that its factory makes, the kinds of its methods, and its hooks.

Knows nothing of calls or the wire.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from workfleet.model.declared import marked
from workfleet.pools.marks import HealthMark, HookMark, Moment, written

Kind = Literal["sync", "async", "generator", "async generator"]
Settle = Callable[[Any], Any]
"""What a value comes to where it is awaitable."""
STREAMS: Final = frozenset[Kind]({"generator", "async generator"})


def by_name(module: str, qualname: str) -> object:
    """The default factory: the class, called without arguments."""
    return find(f"{module}:{qualname}")()


def find(path: str) -> Any:
    """The object at `module:attr`."""
    module, _, attributes = path.partition(":")
    found: Any = importlib.import_module(module)
    for name in attributes.split("."):
        found = getattr(found, name)
    return found


class Target:
    """The served object. Methods by name, bound, as they were written."""

    def __init__(self, served: object) -> None:
        self._served = served
        self._functions = dict(_functions(type(served)))
        self.kinds: dict[str, Kind] = {
            name: kind_of(written(function)) for name, function in self._functions.items() if not name.startswith("_")
        }

    def method(self, name: str) -> tuple[Kind, Callable[..., Any]]:
        function = written(self._functions[name]) if name in self.kinds else None
        if function is None:
            raise AttributeError(f"{type(self._served).__qualname__} has no method {name!r}")
        return self.kinds[name], partial(function, self._served)

    def hooks(self, moment: Moment) -> list[Callable[[], Any]]:
        """The hooks of that moment, bound, in the order of the class."""
        marks = [(function, marked(function, HookMark)) for function in self._functions.values()]
        return [partial(function, self._served) for function, mark in marks if mark and mark.moment == moment]

    def checks(self) -> list[tuple[str, Callable[[], Any]]]:
        """The health checks, bound, by name."""
        checks = [item for item in self._functions.items() if marked(item[1], HealthMark) is not None]
        return [(name, partial(function, self._served)) for name, function in checks]


def run_hooks(target: Target, moment: Moment, settle: Settle) -> None:
    """Every hook of that moment, in the order of the class; the first error is raised after the others have run."""
    failed: Exception | None = None
    for hook in target.hooks(moment):
        try:
            settle(hook())
        except Exception as error:  # noqa: BLE001 - user code: one failing hook must not keep the others from running
            failed = failed or error
    if failed is not None:
        raise failed


def illness(target: Target, settle: Settle) -> str | None:
    """What a health check said: False or an exception means ill."""
    for name, check in target.checks():
        try:
            if settle(check()) is False:
                return f"{name} returned False"
        except Exception as error:  # noqa: BLE001 - user code: whatever it raises is the answer
            return f"{name} raised {type(error).__qualname__}: {error}"
    return None


def _functions(kind: type[Any]) -> dict[str, Any]:
    """The methods of a class by name, those of base classes first, each as the class sees it."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name in vars(base):
            attribute = getattr(kind, name, None)
            if inspect.isfunction(attribute) and not isinstance(vars(base)[name], staticmethod | classmethod):
                found[name] = attribute
    return found


def kind_of(function: Any) -> Kind:
    if inspect.iscoroutinefunction(function):
        return "async"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "generator" if inspect.isgeneratorfunction(function) else "sync"
