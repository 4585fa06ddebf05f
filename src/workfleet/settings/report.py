"""What `config show` and `config check` tell: rows of plain data, and text without colours. Prints nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel

from workfleet.units import Size

from .loaded import Loaded
from .names import SAME, env_name, file_key
from .tree import Group, Leaf, Node, default_text

_OTHER_NAMES = {target: path for path, target in SAME.items()}


@dataclass(frozen=True)
class Row:
    """One setting. `name` is its environment name, `key` its name in files; nothing in it is secret."""

    name: str
    key: str
    value: str
    origin: str
    default: str
    note: str
    description: str


def rows(loaded: Loaded) -> list[Row]:
    """Every setting, in the order of the documentation; of jobs, pools and other free names what was given."""
    return [_row(loaded, leaf, value) for leaf, value in _settings(loaded)]


def as_json(loaded: Loaded) -> list[dict[str, Any]]:
    """The same rows for programs: true, false, numbers, lists and null as such, everything else as text."""
    return [{**asdict(_row(loaded, leaf, value)), "value": _json(leaf, value)} for leaf, value in _settings(loaded)]


def show_text(loaded: Loaded, *, given_only: bool = False) -> str:
    """The rows as aligned text, with the warnings below. `given_only` leaves defaults out."""
    listed = [row for row in rows(loaded) if row.origin != "default" or not given_only]
    lines = [("SETTING", "VALUE", "FROM", "NOTE"), *((row.name, row.value, row.origin, row.note) for row in listed)]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    table = ["  ".join([*map(str.ljust, line[:3], widths), line[3]]).rstrip() for line in lines]
    return "\n".join([*table, *_warnings(loaded)])


def check_text(loaded: Loaded) -> str:
    """What `config check` says of settings that are right; what is wrong is a ConfigError, whose text says it."""
    given = sum(row.origin != "default" for row in rows(loaded))
    return "\n".join([f"settings: all right, {given} given, the others have their defaults", *_warnings(loaded)])


def _warnings(loaded: Loaded) -> list[str]:
    return [f"warning: {text}" for text in loaded.warnings]


def _row(loaded: Loaded, leaf: Leaf, value: Any) -> Row:
    root, key = loaded.inputs.tree, file_key(loaded.inputs.tree, leaf.path)
    origin = loaded.origins.get(key)
    return Row(
        name=env_name(root, leaf.path),
        key=key,
        value=leaf.show(value),
        origin=_place(str(origin), origin.name, env_name(root, leaf.path), key) if origin else "default",
        default=default_text(root, leaf),
        note=_note(root, leaf),
        description=leaf.description,
    )


def _place(place: str, name: str, env: str, key: str) -> str:
    """The origin, with the name used there where that is another one (APP_VERSION, WORKER_SCHEDULER__TIMEZONE)."""
    usual = name.upper() == env or name == key or name.startswith("--")
    return place if usual else f"{place} ({name})"


def _note(root: Group, leaf: Leaf) -> str:
    other = _OTHER_NAMES.get(leaf.path)
    return leaf.note or (f"also {env_name(root, other)}" if other else "")


def _settings(loaded: Loaded) -> Iterator[tuple[Leaf, Any]]:
    for name, node in loaded.inputs.tree.fields.items():
        held = loaded.sections[name] if name in loaded.sections else getattr(loaded.core, name)
        yield from _below(loaded, node, held)


def _below(loaded: Loaded, node: Node, held: Any) -> Iterator[tuple[Leaf, Any]]:
    if isinstance(node, Leaf):
        if node.path not in SAME:
            yield node, held
    elif isinstance(held, BaseModel):
        for name, child in node.fields.items():
            yield from _below(loaded, child, getattr(held, name))
    elif isinstance(held, Mapping):
        for key, item in held.items():
            entry = node.child(str(key))
            if entry is not None:
                found = _below(loaded, entry, item)
                yield from (pair for pair in found if not node.by_name or pair[0].path in loaded.values)


def _json(leaf: Leaf, value: Any) -> Any:
    if leaf.secret and value is not None:
        return leaf.show(value)
    if value is None or (isinstance(value, bool | int | float) and not isinstance(value, Size)):
        return value
    if isinstance(value, list | tuple):
        return [_json(leaf, item) for item in value]
    return leaf.show(value)
