"""From the values that hold to models; what a model refuses becomes a problem in plain words, under the user's name.

Knows no source. Messages of foreign validators are cleaned of secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .given import Findings, Given, SettingPath
from .names import env_name, file_key
from .secrets import scrubbed
from .tree import Group, Leaf, Node, find

M = TypeVar("M", bound=BaseModel)


def validated(
    model: type[M], at: SettingPath, root: Group, values: Mapping[SettingPath, Given], findings: Findings
) -> M | None:
    """The model that stands at `at`, made from the values below it; None where problems were noted."""
    data: dict[str, Any] = {}
    for path, given in values.items():
        if path[: len(at)] == at and not (at == () and path[0] not in model.model_fields):
            _put(data, path[len(at) :], given.value)
    try:
        return model.model_validate(data, by_name=True, by_alias=True)
    except ValidationError as error:
        _note(error, at, root, values, findings)
        return None


def _put(data: dict[str, Any], path: SettingPath, value: Any) -> None:
    *groups, last = path
    for name in groups:
        data = data.setdefault(name, {})
    data[last] = value


def _note(
    error: ValidationError, at: SettingPath, root: Group, values: Mapping[SettingPath, Given], findings: Findings
) -> None:
    # A union and a list report each of their parts: one problem a setting is enough.
    seen: set[SettingPath] = set()
    for detail in error.errors(include_url=False, include_input=False):
        node = _located(root, (*at, *map(str, detail["loc"])))
        if node.path in seen:
            continue
        seen.add(node.path)
        given = values.get(node.path)
        if isinstance(node, Leaf) and given is not None:
            message = _message(node, detail)
            if node.secret:
                message = scrubbed(message, [given.raw, given.value])
            findings.problem(given.origin.name, message, node.show(given.raw), given.origin)
        elif detail["type"] == "missing":
            _note_missing(root, node, findings)
        else:
            # A rule over several settings: its message was written by the application and may name any of them.
            below = [one for path, one in values.items() if path[: len(node.path)] == node.path]
            secret = [one.value for one in below if _hidden(root, one.path)]
            findings.problem(file_key(root, node.path) or "settings", scrubbed(_reason(detail), secret))


def _hidden(root: Group, path: SettingPath) -> bool:
    node = find(root, path)
    return isinstance(node, Leaf) and node.secret


def _located(root: Group, path: SettingPath) -> Node:
    """The deepest node on the way: pydantic goes on into lists and unions, where no settings are."""
    node: Node = root
    for key in path:
        child = node.child(key) if isinstance(node, Group) else None
        if child is None:
            break
        node = child
    return node


def _note_missing(root: Group, node: Node, findings: Findings) -> None:
    name, key = env_name(root, node.path), file_key(root, node.path)
    if isinstance(node, Leaf):
        kind = f" ({node.allowed})" if node.allowed else ""
        findings.problem(name, f"is required{kind}: set it, or {key} in the settings file")
    else:
        findings.problem(f"{name}__…", f"is required: set these, or {key} in the settings file")


def _message(leaf: Leaf, detail: ErrorDetails) -> str:
    if detail["type"] in ("value_error", "assertion_error"):
        return _reason(detail) + (f" (allowed: {leaf.allowed})" if leaf.allowed else "")
    return f"must be {leaf.allowed}" if leaf.allowed else _reason(detail)


def _reason(detail: ErrorDetails) -> str:
    cause = detail.get("ctx", {}).get("error")
    return str(cause) if isinstance(cause, Exception) and str(cause) else detail["msg"]
