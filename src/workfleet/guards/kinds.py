"""Kinds of exceptions, as guards are told them: by class, and by name where a child could not send the exception."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from workfleet.errors import (
    Cancel,
    CircuitOpen,
    Fail,
    LockBusy,
    PayloadRejected,
    PoolBusy,
    RateLimited,
    RemoteError,
    Retry,
    Skipped,
    Snooze,
)
from workfleet.model.policy import exception_name

Kinds = type[BaseException] | Sequence[type[BaseException]]

DECISIONS = (Cancel, Fail, Retry, Skipped, Snooze)
"""What code says on purpose."""
NO_FAILURES = (*DECISIONS, asyncio.CancelledError, CircuitOpen, LockBusy, PayloadRejected, PoolBusy, RateLimited)
"""What tells nothing of the health of what is called: decisions, what never reached it, and what cannot be sent."""


def kinds_of(given: object, option: str) -> tuple[type[BaseException], ...]:
    """The classes in an option. Raises ValueError for what is no exception's class."""
    listed = given if isinstance(given, tuple | list) else (given,)
    for kind in listed:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ValueError(f"{option}={kind!r}: it is an exception's class, or several in a tuple")
    return tuple(listed)


def is_one_of(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether an exception is of these kinds. Of what a child could not send as it is, only the name is known."""
    if isinstance(error, kinds):
        return True
    return isinstance(error, RemoteError) and error.type_name in map(exception_name, kinds)
