"""How a child's exception travels: always its type, message and traceback, and itself where it survives the way."""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any, Final

from workfleet.pools import wire

_LONGEST: Final = 1 << 16
_LARGEST: Final = 1 << 20
_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LEADING: Final = ("asyncio", "contextlib", "dishka", "")
"""Whose frames lead to user code beside ours: the loop's, and those of the container that made the object, of which
some are generated and of no module."""

Failure = tuple[str, str, str, bytes | None]
"""Type name, message, traceback, and the pickled exception or None."""


def pack(error: BaseException) -> bytes:
    failure: Failure = (_type_name(error), _message(error), trace_of(error), _pickled(error))
    return wire.encode(failure)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST]
    except Exception as failing:  # noqa: BLE001 - the exception's own __str__
        return f"<its __str__ failed: {type(failing).__qualname__}>"


def trace_of(error: BaseException) -> str:
    """The traceback as its owner wants to see it: from the first line of user code on, where there is any."""
    try:
        shown = traceback.format_exception(type(error), error, _from_user_code(error.__traceback__))
        return "".join(shown)[-_LONGEST:]
    except Exception as failing:  # noqa: BLE001 - formatting runs the exception's own code
        return f"<the traceback cannot be shown: {type(failing).__qualname__}>"


def _from_user_code(trace: TracebackType | None) -> TracebackType | None:
    first = trace
    while first is not None and _leads(first):
        first = first.tb_next
    return first or trace


def _leads(trace: TracebackType) -> bool:
    frame = trace.tb_frame
    module = frame.f_globals.get("__name__", "")
    return frame.f_code.co_filename.startswith(_OURS) or str(module).partition(".")[0] in _LEADING


def _pickled(error: BaseException) -> bytes | None:
    """None for what must not be raised in a caller (what ends a process or a generator) and what does not survive."""
    if not isinstance(error, Exception) or isinstance(error, StopIteration | StopAsyncIteration):
        return None
    for form in (error, _Restored(error)):
        try:
            body = wire.encode(form)
            copy = wire.decode(body)
            same = type(copy) is type(error) and str(copy) == str(error)
        except Exception:  # noqa: BLE001 - it runs the exception's own code: what fails here does not survive
            continue
        if same and len(body) <= _LARGEST:
            return body
    return None


class _Restored:
    """An exception that is pickled so that its constructor is not called again.

    Pickle calls it with `args`, the message alone as a rule: a constructor with two arguments then fails, and one that
    makes the message makes another one.
    """

    def __init__(self, error: Exception) -> None:
        self._parts = type(error), error.args, error.__dict__

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, self._parts


def restored(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
