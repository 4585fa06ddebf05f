"""What a method can know and say about the call that it is running in: its facts, log lines and progress."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from workfleet.errors import PayloadRejected
from workfleet.pools import wire


class Channel(Protocol):
    """The way to the parent."""

    def send(self, kind: int, call_id: int, body: bytes = b"") -> None: ...


class CallContext:
    """The running call, as its caller described it in `facts`. What is said here arrives at the caller's listener."""

    def __init__(self, channel: Channel, call_id: int, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self._channel = channel
        self._call_id = call_id

    def log(self, entry: object) -> None:
        self._say(wire.LOG, entry, "log entry")

    def progress(self, value: object) -> None:
        self._say(wire.PROGRESS, value, "progress")

    def _say(self, kind: int, value: object, what: str) -> None:
        try:
            body = wire.encode(value)
        except Exception as error:
            raise PayloadRejected(what, "$", f"{type(value).__qualname__} cannot be sent: {error}") from error
        self._channel.send(kind, self._call_id, body)


_current: ContextVar[tuple[Channel, int, Mapping[str, Any] | None] | None] = ContextVar("workfleet_call", default=None)


def current() -> CallContext | None:
    """The call that this code runs in; None outside of a pool's child."""
    entered = _current.get()
    if entered is None:
        return None
    channel, call_id, facts = entered
    return CallContext(channel, call_id, facts or {})


def enter(channel: Channel, call_id: int, facts: Mapping[str, Any] | None) -> None:
    """This code runs in that call. Most never ask for their context, so it is made for those that do."""
    _current.set((channel, call_id, facts))
