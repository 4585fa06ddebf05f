"""The type hints of handlers, resolved once: the payload's type, the result's, and what is injected.

Hints are read at run time, so a name that was imported under `TYPE_CHECKING` is an error that says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from workfleet.errors import ConfigError, Problem
from workfleet.model.jobtypes import Job, NewJob


@dataclass(frozen=True)
class Hints:
    """`job_parameter` is the name of the parameter of type `Job[…]`, if any; `injected` maps the others to their
    types."""

    job_parameter: str | None
    payload: Any
    result: Any
    injected: dict[str, Any]


def read_hints(fn: Callable[..., Any], *, method: bool) -> Hints:
    """Hints of a handler or scheduled function. Raises `ConfigError` for what cannot be resolved or injected."""
    where = f"{fn.__module__}.{fn.__qualname__}"
    resolved = _resolve(fn, where)
    parameters = list(inspect.signature(fn).parameters.values())[1 if method else 0 :]
    job_parameter, payload, injected = None, None, {}
    for position, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(Problem(where, f"*{parameter.name} cannot be injected: name each parameter"))
        hint = resolved.get(parameter.name)
        if hint is None:
            raise ConfigError(Problem(where, f"the parameter {parameter.name!r} has no type hint"))
        if get_origin(hint) is Job or hint is Job:
            if position:
                raise ConfigError(Problem(where, f"`{parameter.name}: Job[…]` must be the first parameter"))
            job_parameter, payload = parameter.name, (get_args(hint) or (Any,))[0]
        else:
            injected[parameter.name] = hint
    result = resolved.get("return", Any)
    return Hints(job_parameter, _plain(payload), _plain(result), injected)


def _plain(hint: Any) -> Any:
    return None if hint is type(None) else hint


def _resolve(fn: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return get_type_hints(fn, include_extras=True)
    except NameError as error:
        message = (
            f"the type hint {error.name!r} is not known at run time. Import it outside of `if TYPE_CHECKING:` "
            "and define it at the top of the module: hints decide what is decoded and injected"
        )
        raise ConfigError(Problem(where, message)) from None


class LazyHint:
    """A type that is read from a function's hints when it is first needed."""

    def __init__(self, fn: Callable[..., Any], part: str) -> None:
        self._fn, self._part = fn, part

    def __call__(self) -> Any:
        hints = read_hints(self._fn, method=is_method(self._fn))
        return hints.payload if self._part == "payload" else hints.result


def is_method(fn: Callable[..., Any]) -> bool:
    """Whether a function stands in a class body: its qualified name has a class before it."""
    head = fn.__qualname__.rpartition(".")[0]
    return bool(head) and not head.endswith("<locals>")


def resolved(hint: Any) -> Any:
    """The type behind a hint that a decorator left to be read later."""
    return hint() if isinstance(hint, LazyHint) else hint


def stored_result(hint: Any) -> Any:
    """The type in which a function's return value is stored: of returned `NewJob`s it is the list of their ids."""
    return Any if _names_new_job(hint) else hint


def _names_new_job(hint: Any) -> bool:
    return (get_origin(hint) or hint) is NewJob or any(_names_new_job(part) for part in get_args(hint))


def result_hint(fn: Callable[..., Any]) -> Any:
    """The type of what a function returns; `Any` where it does not say."""
    return _plain(_resolve(fn, f"{fn.__module__}.{fn.__qualname__}").get("return", Any))
