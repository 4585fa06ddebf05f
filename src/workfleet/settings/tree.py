"""All settings that exist, as a tree made from the models: what is known, what it allows, how it is shown.

Reads no source. Names in the environment are names.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from .core import Settings
from .given import SettingPath
from .kinds import ByName, MaskPassword, Note
from .secrets import is_secret_field, shown, sounds_secret
from .words import Form, allowed, form, has_none_word, is_list, is_secret, is_structure, is_text


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting. `default` means nothing where it is `required`."""

    path: SettingPath
    allowed: str
    default: Any = None
    required: bool = False
    description: str = ""
    note: str = ""
    optional: bool = False
    secret: bool = False
    mask_password: bool = False
    is_list: bool = False
    is_text: bool = False
    is_structure: bool = False
    has_none_word: bool = False

    def show(self, value: Any) -> str:
        """A value of this setting as people may see it."""
        return shown(value, secret=self.secret, url=self.mask_password)


@dataclass(frozen=True, slots=True)
class Group:
    """Settings under one name. `entry` is what each value is where the keys are free; `beside` is the field of the
    entries that are written beside the other fields; an `open` group lets its model judge other keys."""

    path: SettingPath
    fields: Mapping[str, Node] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    entry: Any = None
    by_name: bool = False
    beside: str | None = None
    open: bool = False
    required: bool = False
    note: str = ""

    def child(self, key: str) -> Node | None:
        """What a key of a file means here; None: nothing."""
        if (found := self.fields.get(self.aliases.get(key, key))) is not None:
            return found
        if self.entry is not None:
            return _node((*self.path, key), self.entry, note=self.note)
        if self.open:
            return Leaf((*self.path, key), allowed="", secret=sounds_secret(key), is_structure=True)
        return None

    def entries(self) -> Group | None:
        """The group whose keys the application names and that may be written here."""
        if self.entry is not None:
            return self
        found = self.fields.get(self.beside) if self.beside else None
        return found if isinstance(found, Group) else None


Node: TypeAlias = Leaf | Group
_DEEPEST = 8


def tree(sections: Mapping[str, type[BaseModel]]) -> Group:
    """The root: the worker's own settings, and one group for each section."""
    own = _model(Settings, ())
    groups = {name: _model(model, (name,)) for name, model in sections.items()}
    return Group((), {**own.fields, **groups})


def _model(model: type[BaseModel], path: SettingPath, note: str = "", *, required: bool = False) -> Group:
    fields = {name: _node((*path, name), info, note=note) for name, info in model.model_fields.items()}
    beside = [name for name, info in model.model_fields.items() if ByName(beside=True) in info.metadata]
    return Group(
        path,
        fields,
        aliases={alias: name for name, info in model.model_fields.items() for alias in _aliases(info)},
        beside=beside[0] if beside else None,
        open=model.model_config.get("extra") == "allow",
        required=required,
        note=note,
    )


def _aliases(info: FieldInfo) -> list[str]:
    choices = info.validation_alias.choices if isinstance(info.validation_alias, AliasChoices) else []
    return [name for name in (info.alias, info.validation_alias, *choices) if isinstance(name, str)]


def _node(path: SettingPath, annotation: Any, note: str = "") -> Node:
    info = annotation if isinstance(annotation, FieldInfo) else FieldInfo()
    kind = form(annotation)
    note = next((item.text for item in kind.metadata if isinstance(item, Note)), note)
    # A model that holds itself would never end: that deep it is one value, given as JSON.
    if isinstance(kind.only, type) and issubclass(kind.only, BaseModel) and len(path) < _DEEPEST:
        return _model(kind.only, path, note, required=info is annotation and info.is_required())
    if get_origin(kind.only) is dict and get_args(kind.only)[0] is str:
        by_name = any(isinstance(item, ByName) for item in kind.metadata)
        return Group(path, entry=get_args(kind.only)[1], by_name=by_name, note=note)
    return _leaf(path, kind, info, note, required=info is annotation and info.is_required())


def _leaf(path: SettingPath, kind: Form, info: FieldInfo, note: str, *, required: bool) -> Leaf:
    default = info.get_default(call_default_factory=True, validated_data={})
    return Leaf(
        path,
        allowed=allowed(kind),
        default=None if default is PydanticUndefined else default,
        required=required,
        description=info.description or "",
        note=note,
        optional=kind.optional,
        # A password declared as plain text is still a password.
        secret=is_secret(kind) or (is_text(kind) and is_secret_field(path[-1])),
        mask_password=any(isinstance(item, MaskPassword) for item in kind.metadata),
        is_list=is_list(kind),
        is_text=is_text(kind),
        is_structure=is_structure(kind),
        has_none_word=has_none_word(kind),
    )


def leaves(node: Node) -> Iterator[Leaf]:
    """Every setting below a node that has a fixed name."""
    if isinstance(node, Leaf):
        yield node
        return
    for child in node.fields.values():
        yield from leaves(child)


def find(root: Group, path: SettingPath) -> Node | None:
    """The node at a path of field names and entry keys."""
    node: Node | None = root
    for key in path:
        node = node.child(key) if isinstance(node, Group) else None
    return node


def default_text(root: Group, leaf: Leaf) -> str:
    """What holds while nobody gives the setting a value."""
    above = (find(root, leaf.path[:end]) for end in range(len(leaf.path) - 1))
    if any(isinstance(group, Group) and group.by_name for group in above):
        return "as in the code"
    if leaf.required:
        return "required"
    return "none" if leaf.default in (None, [], {}) else leaf.show(leaf.default)
