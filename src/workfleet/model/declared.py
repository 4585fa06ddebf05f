"""What decorators record, and where: on the function or class itself, to be read at start-up.

A decorated function stays the plain function. A guarded function that is not declared as a job yet is a `Guarded`,
which cannot be called: a guard acts only where workfleet calls the function, and a lock must never be silently missing.
This file knows no option's meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from workfleet.errors import MisplacedGuard

_T = TypeVar("_T")
_MARKS = "__workfleet_marks__"
_GUARDS = "__workfleet_guards__"


@dataclass(frozen=True)
class GuardSpec:
    """One guard as it was written: `kind` names its implementation, `facts` are its checked arguments."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Guarded:
    """A guarded function that nothing declares yet. `@handler`, `@schedule` and `@public` unwrap it."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def _refuse(self) -> NoReturn:
        kinds = ", ".join(guard.kind for guard in guards_of(self.fn))
        raise MisplacedGuard(
            f"{self.fn.__qualname__} has a guard ({kinds}) but no @handler, @schedule or @public above it: "
            "nothing would apply the guard. Put one of them on top"
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        self._refuse()

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        self._refuse()


def unwrap(fn: Any) -> Any:
    """The plain function below a guard, or the function itself."""
    return fn.fn if isinstance(fn, Guarded) else fn


def mark(fn: Any, spec: object) -> None:
    """Record a declaration on a function or class. One of each kind: a second replaces the first."""
    own = fn.__dict__.get(_MARKS, {})
    setattr(fn, _MARKS, {**own, type(spec): spec})


def marked(fn: Any, kind: type[_T]) -> _T | None:
    """The declaration of that kind that was recorded on this very function or class (never an inherited one)."""
    own = getattr(fn, "__dict__", {}).get(_MARKS, {})
    spec = own.get(kind)
    return spec if isinstance(spec, kind) else None


def add_guard(fn: Any, spec: GuardSpec) -> Any:
    """Record a guard, the last written on top. What is not declared yet comes back as a `Guarded`."""
    plain = unwrap(fn)
    setattr(plain, _GUARDS, (spec, *guards_of(plain)))
    return plain if plain.__dict__.get(_MARKS) else Guarded(plain)


def inherit_guards(fn: Any, overridden: Any) -> None:
    """An override that says nothing itself keeps the guards of what it overrides: its lock must not be missing."""
    if not guards_of(fn) and guards_of(overridden):
        setattr(fn, _GUARDS, guards_of(overridden))


def guards_of(fn: Any) -> tuple[GuardSpec, ...]:
    """The guards of a function, outermost first."""
    found: tuple[GuardSpec, ...] = getattr(fn, "__dict__", {}).get(_GUARDS, ())
    return found


def bare_decorator(name: str, given: object) -> str:
    """What to say when a decorator was written without its parentheses, or was given what is no name."""
    if callable(given):
        example = '("emails")' if name == "queue" else "()"
        where = getattr(given, "__qualname__", given)
        return f"{where}: write @{name}{example}, with parentheses: @{name} alone declares nothing"
    return f"@{name} takes a name, not {given!r}"
