"""What answers for a call that an open circuit refuses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from workfleet.ports.guards import Call

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Fallback:
    """Calls a function, plain or async, with those of the call's values that it has parameters for.

    Raises ValueError for a function that needs something which the call does not have."""

    def __init__(self, answer: Callable[..., Any], names: Collection[str]) -> None:
        parameters = inspect.signature(answer).parameters.values()
        self._answer = answer
        self._names: Collection[str] = [
            each.name for each in parameters if each.kind in _BY_NAME and each.name in names
        ]
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
            self._names = names
        for each in parameters:
            variable = each.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
            if not variable and each.default is inspect.Parameter.empty and each.name not in self._names:
                shown = getattr(answer, "__qualname__", repr(answer))
                raise ValueError(
                    f"the fallback {shown} has a parameter {each.name!r}, which the call has not; "
                    f"there are {', '.join(sorted(names))}, by name"
                )

    async def __call__(self, call: Call) -> object:
        answered = self._answer(**{name: call.values[name] for name in self._names if name in call.values})
        return await answered if inspect.isawaitable(answered) else answered
