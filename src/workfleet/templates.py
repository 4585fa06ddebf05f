"""Key templates: `"{job.data.tenant}"` or a bare path `data.sha`, filled from named values.

Only attribute and item access by dots, never format specifications or calls. A template that names nothing is refused,
because a key that is the same for everybody is nearly always a mistake."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

_FIELD = re.compile(r"\{([^{}]*)\}")
_PATH = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
_PLAIN = (str, int, float, Decimal, UUID, date, time, timedelta, Enum)
"""What has one text for one value."""


@dataclass(frozen=True)
class Template:
    """A parsed template. `paths` are the dotted names in it, in order."""

    text: str
    paths: tuple[str, ...]

    @classmethod
    def parse(
        cls, text: str, names: Collection[str] | None = None, *, bare: bool = True, constant: bool = False
    ) -> Template:
        """Parse and check a template. `names` are the values that will be there; None skips that check. A `bare` path
        without braces is accepted; `constant` allows a text that names no value.

        Raises ValueError that says what is wrong."""
        if (
            bare
            and "{" not in text
            and _PATH.fullmatch(text)
            and names is not None
            and text.split(".", maxsplit=1)[0] in names
        ):
            text = "{" + text + "}"
        paths = tuple(match.group(1) for match in _FIELD.finditer(text))
        for path in paths:
            if not _PATH.fullmatch(path):
                such = "{data.tenant}" if names is not None and "data" in names else "{job.data.tenant}"
                raise ValueError(f"{{{path}}} in the key {text!r} is no path such as {such}")
            if names is not None and path.split(".")[0] not in names:
                raise ValueError(
                    f"{{{path}}} in the key {text!r} names no parameter; there are {', '.join(sorted(names)) or 'none'}"
                )
        if re.search(r"[{}]", _FIELD.sub("", text)):
            raise ValueError(f"the key {text!r} has an unmatched brace")
        if not paths and not constant:
            there = "" if names is None else f"; there are {', '.join(sorted(names)) or 'none'}"
            raise ValueError(f"the key {text!r} names no parameter, so it would be the same for every call{there}")
        return cls(text, paths)

    def fill(self, values: Mapping[str, object]) -> str:
        """The key for these values. Raises KeyError or AttributeError where a path leads nowhere, and ValueError where
        it leads to nothing (None or empty text), which would again be the same for everybody, or to a whole object,
        which would be another one each time."""

        def one(match: re.Match[str]) -> str:
            value = _follow(match.group(1), values)
            if value is None or value == "":
                raise ValueError(f"{{{match.group(1)}}} in the key {self.text!r} is empty")
            if not isinstance(value, _PLAIN):
                kind = type(value).__qualname__
                raise ValueError(f"{{{match.group(1)}}} in the key {self.text!r} is a {kind}: name a field of it")
            return str(value)

        return _FIELD.sub(one, self.text)


def _follow(path: str, values: Mapping[str, object]) -> object:
    first, *rest = path.split(".")
    value = values[first]
    for name in rest:
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value
