"""The W3C `traceparent`: how a span is named where it has no object, in a stored job or in a call to another process.

https://www.w3.org/TR/trace-context/#traceparent-header. Imports nothing of OpenTelemetry: log lines read it, too."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FIRST = "00"
"""The version of today. Later ones begin in the same way, and may add to it."""


class Traceparent(NamedTuple):
    """One that was read: its parts as they are written."""

    trace_id: str
    span_id: str
    flags: str

    @classmethod
    def read(cls, sent: str | None) -> Self | None:
        """None for none, and for what is no such text."""
        found = None if sent is None else _FORM.fullmatch(sent)
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        if (version == _FIRST and more is not None) or not trace_id.strip("0") or not span_id.strip("0"):
            return None
        return cls(trace_id, span_id, flags)
