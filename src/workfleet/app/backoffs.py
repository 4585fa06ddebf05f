"""The application's own backoffs: functions by name, those that code gives directly to a handler included."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from workfleet.errors import ConfigError, Problem
from workfleet.model.names import plain_name
from workfleet.model.policy import Backoff, OwnBackoff, own_backoff
from workfleet.modules.module import Module


class Backoffs:
    """Collected from the modules, then from the options of each handler and schedule."""

    def __init__(self, modules: Sequence[Module] = ()) -> None:
        """Raises `ConfigError` for what is no backoff, and for a name that two modules give to different functions."""
        self._by_name: dict[str, OwnBackoff] = {}
        for module in modules:
            for name, fn in module.backoffs.items():
                where = f"module {module.name!r}, backoffs[{name!r}]"
                try:
                    self._add(plain_name("backoff", name), fn, where)
                except ValueError as error:
                    raise ConfigError(Problem(where, str(error))) from None

    @property
    def by_name(self) -> Mapping[str, OwnBackoff]:
        """All of them."""
        return self._by_name

    def named(self, where: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """A function's options with each own backoff given by name. Raises `ConfigError` for a name that is unknown."""
        made = dict(options)
        if "backoff" in made:
            made["backoff"] = self._named(where, made["backoff"])
        if isinstance(made.get("retry"), Mapping):
            made["retry"] = {kind: self._named(where, wait) for kind, wait in made["retry"].items()}
        return made

    def _named(self, where: str, wait: Any) -> Any:
        if callable(wait):
            name = f"{getattr(wait, '__module__', '')}.{getattr(wait, '__qualname__', type(wait).__qualname__)}"
            self._add(name, wait, where)
            return own_backoff(name)
        if isinstance(wait, Backoff) and wait.kind == "own" and wait.name not in self._by_name:
            known = ", ".join(sorted(self._by_name)) or "none"
            message = f"there is no backoff {wait.name!r}: give it as Module(backoffs={{…}}). Backoffs: {known}"
            raise ConfigError(Problem(where, message))
        return wait

    def _add(self, name: str, fn: Any, where: str) -> None:
        if not callable(fn) or not _takes_two(fn):
            message = "a backoff is a function of the failed attempt's number and of its error: `(attempt, error)`"
            raise ConfigError(Problem(where, f"{fn!r}: {message}"))
        if inspect.iscoroutinefunction(fn):
            raise ConfigError(Problem(where, f"{fn!r}: a backoff is a plain function, which may not wait itself"))
        if self._by_name.setdefault(name, fn) is not fn:
            message = f"two backoffs are named {name!r}: give each a name of its own, as Module(backoffs={{…}})"
            raise ConfigError(Problem(where, message))


def _takes_two(fn: Any) -> bool:
    try:
        inspect.signature(fn).bind(1, None)
    except TypeError:
        return False
    except ValueError:
        return True  # written in C: its signature cannot be read
    return True
