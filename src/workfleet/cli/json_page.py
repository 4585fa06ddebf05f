"""Stored JSON as a person reads it: indented, and the lines of a text below each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .output import lines_of

_STEP = "  "


def readable(data: bytes) -> str:
    """Stored JSON for reading, not for parsing: a text's line breaks are real ones. What is no JSON is shown as it is,
    and said so."""
    try:
        return lines_of("".join(_written(json.loads(data), 0, 0)))
    except (ValueError, RecursionError):
        return f"(no JSON) {data.decode(errors='backslashreplace')}"


def _written(value: Any, depth: int, column: int) -> Iterator[str]:
    """The parts of a value that begins at that column, in a container so deep."""
    if isinstance(value, str):
        yield _text(value, column)
    elif isinstance(value, dict) and value:
        names = [f"{_text(name, 0)}: " for name in value]
        yield from _container("{}", names, list(value.values()), depth)
    elif isinstance(value, list) and value:
        yield from _container("[]", [""] * len(value), value, depth)
    else:
        yield json.dumps(value)


def _container(brackets: str, names: list[str], values: list[Any], depth: int) -> Iterator[str]:
    inner = _STEP * (depth + 1)
    yield brackets[0]
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        yield f"{',' if number else ''}\n{inner}{name}"
        yield from _written(value, depth + 1, len(inner) + len(name))
    yield f"\n{_STEP * depth}{brackets[1]}"


def _text(text: str, column: int) -> str:
    """A text in quotes, its further lines below its first one."""
    lines = [json.dumps(line, ensure_ascii=False)[1:-1] for line in text.split("\n")]
    below = "\n" + " " * (column + 1)
    return f'"{below.join(lines)}"'
