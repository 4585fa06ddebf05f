"""What a setting allows, in plain words, from its type: "a whole number from 1 to 65535". Knows no setting's name."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

import annotated_types
from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic.fields import FieldInfo

from workfleet.units import Duration, Size

from .kinds import Checked

_SECRETS = (SecretStr, SecretBytes, Secret)
_LISTS = (list, tuple, set, frozenset, Sequence)


@dataclasses.dataclass(frozen=True)
class Form:
    """A type without its wrappings: `types` are its alternatives, `metadata` all that Annotated said of them."""

    types: tuple[Any, ...]
    metadata: tuple[Any, ...]
    optional: bool

    @property
    def only(self) -> Any:
        """The type, where there is one alternative."""
        return self.types[0] if len(self.types) == 1 else None


def form(annotation: Any, metadata: Iterable[Any] = ()) -> Form:
    """Take Annotated, `| None` and type aliases off a type."""
    if isinstance(annotation, FieldInfo):
        return form(annotation.annotation, [*metadata, *annotation.metadata])
    # A `type X = …` statement of 3.12 and later.
    if hasattr(annotation, "__value__"):
        return form(annotation.__value__, metadata)
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        flat = [item for extra in more for item in (extra.metadata if isinstance(extra, FieldInfo) else [extra])]
        return form(inner, [*metadata, *flat])
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [form(part) for part in get_args(annotation)]
        alternatives = [kind for part in parts for kind in part.types if kind is not type(None)]
        inherited = [item for part in parts for item in part.metadata]
        return Form(tuple(alternatives), (*metadata, *inherited), any(type(None) in part.types for part in parts))
    return Form((annotation,), tuple(metadata), annotation is type(None))


def allowed(kind: Form) -> str:
    """What may be given, or "" for a type of which nothing short can be said."""
    checks = [item.allowed for item in kind.metadata if isinstance(item, Checked)]
    phrases = checks or [_phrase(one, kind.metadata) for one in kind.types]
    if not all(phrases):
        return ""
    lonely = not checks and len(kind.types) == 1 and get_origin(kind.only) is Literal and len(get_args(kind.only)) == 1
    return " or ".join(phrases) + (", the only choice" if lonely else "") + (", or none" if kind.optional else "")


def _phrase(one: Any, metadata: Sequence[Any]) -> str:
    origin = get_origin(one)
    if origin is Literal:
        return _choice(get_args(one))
    if origin in _LISTS:
        return _list_phrase(one)
    if not isinstance(one, type):
        return ""
    if issubclass(one, enum.Enum):
        return _choice([member.value for member in one])
    named: list[tuple[Any, str]] = [
        (bool, "true or false"),
        (Duration, "a duration such as '90s' or '1h30m'"),
        (Size, "a size such as '512MB' or '512MiB'"),
        (int, "a whole number" + _range(metadata)),
        (float, "a number" + _range(metadata)),
        ((str, *_SECRETS), "text"),
        (PurePath, "a path"),
    ]
    return next((words for kind, words in named if issubclass(one, kind)), "")


def _choice(values: Iterable[Any]) -> str:
    listed = list(map(str, values))
    return f"one of {', '.join(listed)}" if len(listed) > 1 else listed[0]


def _list_phrase(one: Any) -> str:
    item = next((part for part in get_args(one) if part is not Ellipsis), str)
    inner = allowed(form(item))
    return f"a list such as a,b of which each is {inner}" if inner and inner != "text" else "a list such as a,b"


def _range(metadata: Sequence[Any]) -> str:
    # Where several limits are said, the narrowest holds.
    low = max((item.ge for item in metadata if isinstance(item, annotated_types.Ge)), default=None)  # type: ignore[type-var]
    high = min((item.le for item in metadata if isinstance(item, annotated_types.Le)), default=None)  # type: ignore[type-var]
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f", {low} or more"
    return f", {high} or less" if high is not None else ""


def is_secret(kind: Form) -> bool:
    """Whether pydantic's secret types occur in it."""
    return any(_mentions(one, _SECRETS) for one in kind.types)


def _mentions(one: Any, wanted: tuple[Any, ...]) -> bool:
    if isinstance(one, type) and issubclass(one, wanted):
        return True
    origin = get_origin(one)
    return (isinstance(origin, type) and issubclass(origin, wanted)) or any(
        _mentions(part, wanted) for part in get_args(one)
    )


def is_list(kind: Form) -> bool:
    """Whether text such as "a,b" means a list."""
    return kind.only is not None and (get_origin(kind.only) or kind.only) in _LISTS


def is_text(kind: Form) -> bool:
    """Whether a scalar, or a list's item, is best taken as it was written, whatever YAML would make of it."""
    one = kind.only
    if is_list(kind):
        one = form(next(iter(get_args(one)), str)).only
    if get_origin(one) is Literal:
        return all(isinstance(value, str) for value in get_args(one))
    return isinstance(one, type) and issubclass(one, (str, *_SECRETS, PurePath, Duration, Size, enum.Enum))


def is_structure(kind: Form) -> bool:
    """Whether its text is JSON when it begins with a bracket."""
    return any(
        one in (Any, dict, *_LISTS)
        or is_typeddict(one)
        or dataclasses.is_dataclass(one)
        or (isinstance(one, type) and issubclass(one, BaseModel))
        or get_origin(one) not in (None, Literal)
        for one in kind.types
    )


def has_none_word(kind: Form) -> bool:
    """Whether the text "none" switches it off: where the setting is text itself, it might be meant."""
    texts = (str, *_SECRETS, PurePath)
    return kind.optional and not any(isinstance(one, type) and issubclass(one, texts) for one in kind.types)
