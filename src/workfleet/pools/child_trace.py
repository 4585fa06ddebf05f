"""In a child: a call that brings a trace along is run by what the parent said at its boot. Imported by every child, so
it knows nothing of traces itself and imports nothing until such a call comes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from workfleet.pools.child_target import find

TRACEPARENT: Final = "traceparent"
"""The name, among the facts of a call, of the W3C `traceparent` in whose trace it is."""
SHOWN: Final = "shown"
"""And of what the call is called, where that is not its method."""


class CallTrace:
    """`place` is where an `InCall` is to be found, `pool` the pool's name where its calls are spans of their own."""

    def __init__(self, place: str | None, pool: str | None) -> None:
        self._place, self._pool = place, pool
        self._inside: Any = None

    def around(self, method: str, sent: str) -> AbstractContextManager[object]:
        """Entered, what runs is a part of the trace `sent`."""
        if self._inside is None:
            assert self._place is not None, "only a parent that traces sends a trace"
            self._inside = find(self._place)
        entered: AbstractContextManager[object] = self._inside(self._pool, method, sent)
        return entered
