"""The Lua scripts: their text, put together from the files in `lua/`, and the hash that calls them. Sends nothing."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from msgspec import Struct

_LUA = Path(__file__).with_name("lua")
_INCLUDE = re.compile(r"^-- include: (\S+)$", re.MULTILINE)


class Script(Struct, frozen=True):
    """A script as the server gets it. `sha` is how the server knows it."""

    name: str
    text: str
    sha: str

    @classmethod
    def load(cls, name: str) -> Script:
        """`lua/<name>.lua`. A line `-- include: parts/x.lua` stands for that file, once in a script."""
        text = _expanded(f"{name}.lua", set())
        return cls(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _expanded(path: str, seen: set[str]) -> str:
    seen.add(path)

    def included(found: re.Match[str]) -> str:
        return "" if found[1] in seen else _expanded(found[1], seen)

    return _INCLUDE.sub(included, (_LUA / path).read_text(encoding="utf-8"))
