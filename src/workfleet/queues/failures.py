"""What user code raised, as a value: how the run ended, and the text that is kept of it.

Everything here reads what user code made, so none of it may fail."""

from __future__ import annotations

import traceback
from typing import Literal

from workfleet.errors import (
    Cancel,
    ConfigError,
    Fail,
    HandlerNotFound,
    HandlerSwitchedOff,
    Retry,
    Skipped,
    Snooze,
    WorkfleetError,
)
from workfleet.model.durations import duration_ms
from workfleet.model.jobs import Failure
from workfleet.model.outcome import Ended

_TRACEBACK_LIMIT = 20_000
_MESSAGE_LIMIT = 5_000


def raised(error: BaseException) -> Ended:
    """How a run ended that raised. The control exceptions say it themselves; a wrong duration in one is a failure."""
    # By its type: `isinstance` asks the exception itself, and its `__class__` may be a trap.
    kind = type(error)
    if issubclass(kind, Fail):
        return Ended(kind="failed", failure=_said_by("failed", error))
    if issubclass(kind, Skipped):
        return Ended(kind="skipped", failure=_said_by("skipped", error))
    if issubclass(kind, Cancel):
        return Ended(kind="cancelled", failure=_said_by("cancelled", error))
    if issubclass(kind, Retry | Snooze):
        return _asked("retry" if issubclass(kind, Retry) else "snoozed", error)
    return Ended(kind="raised", failure=failure_of(error))


def _said_by(code: str, error: BaseException) -> Failure:
    return Failure(code, _text(_said(error), _MESSAGE_LIMIT), _name(error, "__name__"))


def _asked(kind: Literal["retry", "snoozed"], error: BaseException) -> Ended:
    try:
        after = getattr(error, "after", None)  # a subclass may have forgotten to call ours
        after_ms = None if after is None else duration_ms(after)
    except BaseException as wrong:  # noqa: BLE001 - what a subclass made of it is user code too
        return Ended(kind="failed", failure=failure_of(wrong))
    return Ended(kind=kind, after_ms=after_ms, failure=_said_by(kind, error))


def failure_of(error: BaseException) -> Failure:
    """An exception as it is kept with the job: bounded, valid text."""
    kind = type(error)
    module = _name(error, "__module__")
    name = f"{module}.{_name(error, '__qualname__')}".removeprefix("builtins.")
    shown = "" if issubclass(kind, HandlerNotFound | HandlerSwitchedOff | ConfigError) else _traceback(error)
    return Failure(_code(error), _text(_said(error), _MESSAGE_LIMIT), _text(name, _MESSAGE_LIMIT), shown)


def _code(error: BaseException) -> str:
    if not issubclass(type(error), WorkfleetError):
        return "raised"
    try:
        return str(getattr(error, "code"))  # noqa: B009 - its type is known by `issubclass` only
    except BaseException:  # noqa: BLE001 - a subclass is user code too
        return "raised"


def _name(error: BaseException, attribute: str) -> str:
    """A name of the exception's class. Its metaclass may be user code as well."""
    try:
        return str(getattr(type(error), attribute))
    except BaseException:  # noqa: BLE001 - see above
        return "(unnamed)"


def _said(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except BaseException as broken:  # noqa: BLE001 - the exception's own __str__ is user code too
        return f"(its text cannot be read: {_name(broken, '__name__')})"


def _traceback(error: BaseException) -> str:
    try:
        shown = "".join(traceback.format_exception(error))
    except BaseException as broken:  # noqa: BLE001 - as above: it reads what user code left on the exception
        shown = f"(its traceback cannot be read: {_name(broken, '__name__')})"
    return _text(shown, _TRACEBACK_LIMIT, keep_end=True)


def _text(text: str, limit: int, *, keep_end: bool = False) -> str:
    # By the class: a __str__ may return a kind of string of its own.
    clean = str.encode(text, errors="replace").decode()
    return clean if len(clean) <= limit else clean[-limit:] if keep_end else clean[:limit]
