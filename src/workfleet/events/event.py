"""The root of the catalogue of events: what happened, as frozen values.

A class carries its `wire_name`, its log `level` and its `text` (filled from its fields), so that the log subscriber is
small and no other code logs. Fields hold plain values in milliseconds."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

Level = Literal["debug", "info", "warning", "error"]


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """The root of the catalogue. Events hold plain values only, so the garbage collector need not look at them."""

    wire_name: ClassVar[str] = "event"
    level: ClassVar[Level] = "info"
    text: ClassVar[str] = ""

    def message(self) -> str:
        """The event as a sentence."""
        return self.text.format(**self.fields())

    def severity(self) -> Level:
        """The level of this very event; a class overrides it where its events differ."""
        return self.level

    def fields(self) -> dict[str, object]:
        """The event's facts by name."""
        return msgspec.structs.asdict(self)
