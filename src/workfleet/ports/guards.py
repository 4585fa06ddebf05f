"""What a guard is: a small piece of code around one call, composed by the runner in the order in which it was
written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Call:
    """One call of a handler, a scheduled function or a pool method. `values` are its parameters by name, for keys."""

    name: str
    values: Mapping[str, object]


Proceed = Callable[[], Awaitable[object]]


class Guard(Protocol):
    """Runs around a call: it may refuse, repeat, measure or replace it."""

    async def __call__(self, call: Call, proceed: Proceed) -> object: ...


class Span(Protocol):
    """Begins a span of tracing that is the current one inside. What the body raises is recorded in it and goes on.

    `consumes`: it works off a message; `parent` is the W3C `traceparent` of what has sent that, where nothing else is
    under way."""

    def __call__(
        self,
        name: str,
        attributes: Mapping[str, object] | None = None,
        *,
        consumes: bool = False,
        parent: str | None = None,
    ) -> AbstractContextManager[object]: ...
