"""Which part of a declared type nothing here can encode: found when the type is declared, not when a job is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.inspect import CustomType, Type


def foreign_type(info: Type) -> type[Any] | None:
    """The first class in a type that is no JSON and has no translation to it, or None."""
    seen: set[int] = set()
    waiting: list[Any] = [info]
    while waiting:
        part = waiting.pop()
        if isinstance(part, CustomType) and part.cls is not object:
            return part.cls
        if id(part) not in seen:
            seen.add(id(part))  # types may contain themselves
            waiting += _parts(part)
    return None


def _parts(part: Any) -> Iterator[Any]:
    if isinstance(part, tuple):
        yield from part
    elif isinstance(part, Struct):
        yield from (getattr(part, name) for name in part.__struct_fields__ if name not in ("cls", "default"))
