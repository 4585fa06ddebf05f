"""What guards do around calls. They belong to `guards/`."""

from __future__ import annotations

from typing import ClassVar

from .event import Event, Level


class CircuitOpened(Event, frozen=True, kw_only=True):
    """Told by the process whose call was one failure too many; of a circuit of the fleet once in the fleet."""

    wire_name: ClassVar[str] = "circuit.opened"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "circuit {circuit} is open for {reset_after_ms} ms: {error}"
    circuit: str
    scope: str
    reset_after_ms: int
    error: str
    """The failure that opened it."""


class CircuitHalfOpened(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "circuit.half_opened"
    text: ClassVar[str] = "circuit {circuit} lets one call through to try"
    circuit: str
    scope: str


class CircuitClosed(Event, frozen=True, kw_only=True):
    wire_name: ClassVar[str] = "circuit.closed"
    text: ClassVar[str] = "circuit {circuit} is closed again"
    circuit: str
    scope: str


class CallLimited(Event, frozen=True, kw_only=True):
    """A call was refused because its rate limit was reached."""

    wire_name: ClassVar[str] = "call.limited"
    level: ClassVar[Level] = "debug"
    text: ClassVar[str] = "{name} is at its rate limit; again in {retry_after_ms} ms"
    name: str
    retry_after_ms: int


class CallRetried(Event, frozen=True, kw_only=True):
    """A call of a pool method failed and is made again."""

    wire_name: ClassVar[str] = "call.retried"
    level: ClassVar[Level] = "warning"
    text: ClassVar[str] = "{name} failed and is called again in {wait_ms} ms (call {attempt} of {attempts}): {error}"
    name: str
    attempt: int
    """The call that failed, from 1."""
    attempts: int
    wait_ms: int
    error: str
