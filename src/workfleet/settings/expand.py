"""From what a source holds to one value for each setting: mappings are taken apart along the tree, text is understood.

Unknown names in files, code and on the command line are problems here. The environment's own rules are environment.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from .given import Findings, Given, Origin, Plain, SettingPath, Source
from .names import SAME, file_key, flag_name, known_keys, nearest
from .secrets import shown, sounds_secret
from .tree import Group, Leaf, Node, find, leaves

OriginOf = Callable[[SettingPath], Origin]
_ONLY_BY_ENVIRONMENT = ("config",)


class Expander:
    """Takes raw values apart. `judge` says whether an unknown top-level key can be judged at all."""

    def __init__(self, root: Group, findings: Findings, *, app_known: bool) -> None:
        self._root, self._findings, self._app_known = root, findings, app_known

    def mapping(self, raw: Mapping[str, Any], origin_of: OriginOf, at: SettingPath = ()) -> Iterator[Given]:
        """The values of a mapping that stands at a path of keys."""
        node = find(self._root, at)
        if isinstance(node, Group):
            yield from self._group(node, raw, at, origin_of)
        else:
            self._unknown(self._root, at, None, origin_of(at))

    def code(self, values: Mapping[str, Any] | BaseModel, at: SettingPath) -> Iterator[Given]:
        """What the application's code gives to the settings at a path: a mapping or a model, of which what was set."""
        yield from self.mapping(_fields(values), code_origin, at)

    def value(self, node: Node, raw: Any, keys: SettingPath, origin_of: OriginOf) -> Iterator[Given]:
        """The values of one node. `keys` are the keys as written, from which the origin is found."""
        if isinstance(node, Leaf):
            yield from self._leaf(node, raw, origin_of(keys))
            return
        raw = _json_object(raw) if isinstance(raw, str) else raw
        raw = _fields(raw)
        if raw is None:
            return
        if isinstance(raw, Mapping):
            yield from self._group(node, raw, keys, origin_of)
            return
        origin = origin_of(keys)
        where = 'a JSON object such as {"size": 4}' if origin.source.is_environment else "a mapping of names to values"
        hidden = any(leaf.secret for leaf in leaves(node)) or sounds_secret(origin.name)
        self._findings.problem(origin.name, f"must be {where}", shown(raw, secret=hidden), origin)

    def _group(self, group: Group, raw: Mapping[str, Any], keys: SettingPath, origin_of: OriginOf) -> Iterator[Given]:
        for key, item in raw.items():
            path = (*keys, str(key))
            child = group.child(str(key))
            # The pool `cpu` stands beside the option `cpu`: one is a mapping, the other a number.
            free = child is None or (group.beside is not None and isinstance(child, Leaf))
            if free and isinstance(item, Mapping | BaseModel) and (entries := group.entries()) is not None:
                child = entries.child(str(key))
            if child is None or child.path == _ONLY_BY_ENVIRONMENT:
                self._unknown(group, path, item, origin_of(path))
            else:
                yield from self.value(child, item, path, origin_of)

    def _leaf(self, leaf: Leaf, raw: Any, origin: Origin) -> Iterator[Given]:
        try:
            value = understood(leaf, raw, textual=origin.source.is_environment or origin.source is Source.COMMAND_LINE)
        except ValueError as error:
            self._findings.problem(origin.name, str(error), leaf.show(raw), origin)
            return
        yield Given(SAME.get(leaf.path, leaf.path), value, raw, origin)

    def _unknown(self, group: Group, keys: SettingPath, raw: Any, origin: Origin) -> None:
        if keys == _ONLY_BY_ENVIRONMENT:
            message = "says where the settings file is, so only --config and WORKER_CONFIG can"
        elif not group.path and not self._app_known and isinstance(raw, Mapping | None):
            # It may be a section of the application, which this process does not load.
            return
        else:
            message = "is not a setting" + self._hint(group, keys[-1])
        meant = message.partition("did you mean ")[2]
        hidden = sounds_secret(origin.name) or sounds_secret(meant)
        # What is below a mapping may be secret too, and is not shown.
        value = None if raw is None or isinstance(raw, Mapping | BaseModel) else shown(raw, secret=hidden)
        self._findings.problem(origin.name, message, value, origin)

    def _hint(self, group: Group, key: str) -> str:
        if near := nearest(key, known_keys(self._root, group.path), cutoff=0.7):
            return f"; did you mean {file_key(self._root, (*group.path, near))}?"
        elsewhere = [leaf.path for leaf in leaves(self._root) if leaf.path[-1] == key]
        if len(elsewhere) == 1:
            return f"; did you mean {file_key(self._root, elsewhere[0])}?"
        known = known_keys(self._root, group.path)
        return f"; {group.path[-1]} has {', '.join(known)}" if group.path and known else ""


def always(origin: Origin) -> OriginOf:
    """One origin for whatever stands below it."""
    return lambda _: origin


def command_line_origin(path: SettingPath) -> Origin:
    """The origin of an option of the command."""
    return Origin(Source.COMMAND_LINE, "command line", flag_name(path))


def code_origin(path: SettingPath) -> Origin:
    """The origin of what the application's code gives."""
    return Origin(Source.CODE, "code", ".".join(path))


def understood(leaf: Leaf, raw: Any, *, textual: bool) -> Any:
    """What was written, as it is validated. ValueError: it promises JSON and is none.

    In text, "none" switches an optional setting off, unless the setting is text itself; a list may be "a,b".
    """
    raw = _plain(raw, text=leaf.is_text)
    if not isinstance(raw, str):
        return raw
    if textual and not leaf.secret:
        raw = raw.strip()
    if leaf.is_structure and raw.lstrip()[:1] in ("[", "{"):
        return _json(raw)
    if leaf.has_none_word and raw.lower() in ("none", "null"):
        return None
    if leaf.is_list:
        return [item.strip() for item in raw.split(",") if item.strip()]
    return raw


def _plain(raw: Any, *, text: bool) -> Any:
    if isinstance(raw, Plain):
        return raw.text if text else raw.value
    if isinstance(raw, list):
        return [_plain(item, text=text) for item in raw]
    if isinstance(raw, dict):
        return {key: _plain(item, text=False) for key, item in raw.items()}
    return raw


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        position = f", character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"begins like JSON and is not right JSON{position}") from None


def _fields(raw: Any) -> Any:
    return {name: getattr(raw, name) for name in raw.model_fields_set} if isinstance(raw, BaseModel) else raw


def _json_object(text: str) -> Any:
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else text
    except ValueError:
        return text
    return found
