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
    if isinstance(error, Fail):
        return Ended(kind="failed", failure=_said_by("failed", error))
    if isinstance(error, Skipped):
        return Ended(kind="skipped", failure=_said_by("skipped", error))
    if isinstance(error, Cancel):
        return Ended(kind="cancelled", failure=_said_by("cancelled", error))
    if isinstance(error, Retry | Snooze):
        return _asked(error)
    return Ended(kind="raised", failure=failure_of(error))


def _said_by(code: str, error: BaseException) -> Failure:
    return Failure(code, _text(_said(error), _MESSAGE_LIMIT), type(error).__name__)


def _asked(error: Retry | Snooze) -> Ended:
    kind: Literal["retry", "snoozed"] = "retry" if isinstance(error, Retry) else "snoozed"
    after = getattr(error, "after", None)  # a subclass may have forgotten to call ours
    try:
        after_ms = None if after is None else duration_ms(after)
    except ValueError as wrong:
        return Ended(kind="failed", failure=failure_of(wrong))
    return Ended(kind=kind, after_ms=after_ms, failure=_said_by(kind, error))


def failure_of(error: BaseException) -> Failure:
    """An exception as it is kept with the job: bounded, valid text."""
    code = error.code if isinstance(error, WorkfleetError) else "raised"
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    shown = "" if isinstance(error, HandlerNotFound | HandlerSwitchedOff | ConfigError) else _traceback(error)
    return Failure(code, _text(_said(error), _MESSAGE_LIMIT), _text(name, _MESSAGE_LIMIT), shown)


def _said(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except BaseException as broken:  # noqa: BLE001 - the exception's own __str__ is user code too
        return f"(its text cannot be read: {type(broken).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        shown = "".join(traceback.format_exception(error))
    except Exception as broken:  # noqa: BLE001 - as above: it reads what user code left on the exception
        shown = f"(its traceback cannot be read: {type(broken).__name__})"
    return _text(shown, _TRACEBACK_LIMIT, keep_end=True)


def _text(text: str, limit: int, *, keep_end: bool = False) -> str:
    clean = text.encode(errors="replace").decode()
    return clean if len(clean) <= limit else clean[-limit:] if keep_end else clean[:limit]
