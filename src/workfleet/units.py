"""`Duration` and `Size`: real types at rest, friendly text at the door. For settings models and payloads.

A Duration is a timedelta and a Size is an int, so arithmetic, comparison and isinstance just work; what arithmetic
gives back is the plain type. Both write themselves as the text that they read. The grammar is model/durations.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from workfleet.model.durations import DurationLike, SizeLike, duration_ms, format_duration, format_size, size_bytes

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["Duration", "DurationLike", "Size", "SizeLike"]


class Duration(timedelta):
    """`Duration("1h30m")`, exact to the millisecond. Raises ValueError as `duration_ms` does."""

    def __new__(cls, value: DurationLike) -> Self:
        return super().__new__(cls, milliseconds=duration_ms(value))

    @property
    def ms(self) -> int:
        """The duration in whole milliseconds."""
        return self // timedelta(milliseconds=1)

    def __str__(self) -> str:
        return format_duration(self.ms)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (str(self),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _text_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^\s*([0-9]+(\.[0-9]+)?(ms|[smhdw])\s*)+$",
            "description": "a duration such as 90s, 1h30m or 14d",
        }


class Size(int):
    """`Size("512MB")`: a number of bytes. Raises ValueError as `size_bytes` does."""

    def __new__(cls, value: SizeLike | Size) -> Self:
        return super().__new__(cls, int(value) if isinstance(value, Size) else size_bytes(value))

    def __str__(self) -> str:
        return format_size(int(self))

    def __repr__(self) -> str:
        return f"Size({str(self)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (str(self),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _text_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT]([iI])?)?[bB]\s*$",
            "description": "a size such as 512MB or 512MiB",
        }


def _text_schema(cls: type[Duration] | type[Size]) -> CoreSchema:
    """Read by the class, written as text in JSON and left as it is in Python."""
    from pydantic_core import core_schema

    return core_schema.no_info_plain_validator_function(
        cls, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
    )
