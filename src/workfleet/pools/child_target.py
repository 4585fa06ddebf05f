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
from workfleet.pools.child_engine import Engine
from workfleet.pools.marks import HealthMark, HookMark, Moment, written

Kind = Literal["sync", "async", "generator", "async generator"]
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

    def __init__(self, served: object, engine: Engine) -> None:
        self._engine = engine
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

    def run_hooks(self, moment: Moment) -> None:
        """Every hook of that moment, in the order of the class; the first error is raised after the others have run."""
        failed: Exception | None = None
        for function in self._functions.values():
            mark = marked(function, HookMark)
            if mark is not None and mark.moment == moment:
                try:
                    self._call(function)
                except Exception as error:  # noqa: BLE001 - user code: one failing hook must not keep the others from running
                    failed = failed or error
        if failed is not None:
            raise failed

    def illness(self) -> str | None:
        """What a health check said: False or an exception means ill."""
        for name, function in self._functions.items():
            if marked(function, HealthMark) is not None:
                try:
                    if self._call(function) is False:
                        return f"{name} returned False"
                except Exception as error:  # noqa: BLE001 - user code: whatever it raises is the answer
                    return f"{name} raised {type(error).__qualname__}: {error}"
        return None

    def _call(self, function: Callable[..., Any]) -> Any:
        return self._engine.settle(function(self._served))


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
