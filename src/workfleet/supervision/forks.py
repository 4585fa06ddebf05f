"""Ends the children that user code made with `os.fork` on an event loop and then forgot.

Such a child has a copy of the loop, with the parent's connections: were it to go on, it would take the parent's
messages and settle the parent's jobs. What it does before it comes back to the loop is its own business; then it ends.
Children of `multiprocessing` never come back, and are left alone."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

EXIT_CODE = 70
_MESSAGE = (
    b"workfleet: a job has forked this process and goes on in the child: the child ends here. Start programs with "
    b"subprocess, run Python in a pool, or end the child with os._exit()\n"
)
_LEAVES_BY_ITSELF = "multiprocessing.popen_fork"


class StrayForks:
    """While it is entered, a child that a coroutine of this process forks ends when it returns to the event loop."""

    def __init__(self) -> None:
        self._watching = False

    def __enter__(self) -> None:
        self._watching = True
        os.register_at_fork(after_in_child=self._in_child)  # for good: nothing can be taken out again

    def __exit__(self, *exc: object) -> None:
        self._watching = False

    def _in_child(self) -> None:
        stack = list(_stack(sys._getframe()))
        if not self._watching or any(frame.f_globals.get("__name__") == _LEAVES_BY_ITSELF for frame in stack):
            return
        # The outermost coroutine is what the loop runs. Tracing it costs nobody but this child.
        coroutines = [frame for frame in stack if frame.f_code.co_flags & inspect.CO_COROUTINE]
        if coroutines:
            coroutines[-1].f_trace, coroutines[-1].f_trace_lines = _leaves, False
            sys.settrace(_traces_nothing)


def end_stray_child() -> None:
    """End this process, which is such a child, and say why."""
    os.write(2, _MESSAGE)
    os._exit(EXIT_CODE)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _leaves(_frame: FrameType, what: str, _value: Any) -> Any:
    """A coroutine is left by a return, an exception, or an await that waits: all are a "return" to its frame."""
    if what == "return":
        end_stray_child()
    return _leaves


def _traces_nothing(_frame: FrameType, _what: str, _value: Any) -> None:
    return None
