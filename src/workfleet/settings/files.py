"""The settings file: which one it is, and its content with the line of every key.

One of workfleet.yaml, --config PATH, WORKER_CONFIG or [tool.workfleet] of pyproject.toml. Knows no setting.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .given import Findings, Origin, Plain, SettingPath, Source
from .root import CONFIG_NAMES

_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass(frozen=True)
class ConfigFile:
    """The content of the settings file. `lines` holds the line of each key, where the format tells."""

    label: str
    content: Mapping[str, Any]
    lines: Mapping[SettingPath, int] = field(default_factory=dict)

    def origin(self, path: SettingPath) -> Origin:
        """Where the key at that path of keys stands."""
        for end in range(len(path), 0, -1):
            if (line := self.lines.get(path[:end])) is not None:
                return Origin(Source.FILE, f"{self.label}:{line}", ".".join(path))
        return Origin(Source.FILE, self.label, ".".join(path))


@dataclass(frozen=True)
class _Candidate:
    path: Path
    called: str


def find_config(asked: Sequence[tuple[Path, Origin]], cwd: Path, root: Path, findings: Findings) -> ConfigFile | None:
    """The settings file, or None. `asked` is what --config and WORKER_CONFIG say; two different files are a problem."""
    found: list[_Candidate] = []
    for path, origin in asked:
        if not (cwd / path).is_file():
            findings.problem(origin.name, "there is no such file", str(path), origin)
            continue
        found.append(_Candidate(cwd / path, f"{origin.name} {path}"))
    found += [_Candidate(root / name, name) for name in CONFIG_NAMES if (root / name).is_file()]
    files = [_read(one.path, root, findings) for one in found]
    pyproject = root / "pyproject.toml"
    if pyproject.is_file() and (table := _toml(pyproject, findings, required=False)) is not None:
        found.append(_Candidate(pyproject, "[tool.workfleet] in pyproject.toml"))
        files.append(ConfigFile(found[-1].called, table))
    different = {one.path.resolve(): one.called for one in reversed(found)}
    if len(different) > 1:
        named = " and ".join(
            dict.fromkeys(one.called for one in found if different.get(one.path.resolve()) == one.called)
        )
        findings.problem("settings files", f"only one may be used at once: {named}; keep one of them")
    return next((one for one in files if one is not None), None)


def _read(path: Path, root: Path, findings: Findings) -> ConfigFile | None:
    label = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    if path.suffix == ".toml":
        table = _toml(path, findings, required=True)
        named = f"[tool.workfleet] in {label}" if path.name == "pyproject.toml" else label
        return ConfigFile(named, table) if table is not None else None
    try:
        content, lines = _yaml(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        findings.problem(label, _unreadable(error, "YAML"))
        return None
    return ConfigFile(label, content, lines)


def _toml(path: Path, findings: Findings, *, required: bool) -> Mapping[str, Any] | None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        findings.problem(path.name, _unreadable(error, "TOML"))
        return None
    if path.name != "pyproject.toml":
        return document
    table = document.get("tool", {}).get("workfleet")
    if table is None and required:
        findings.problem(path.name, "it has no table [tool.workfleet]")
    return table if isinstance(table, dict) else None


def _unreadable(error: Exception, language: str) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return "cannot be read: it is not UTF-8 text"
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        # The parser's full message quotes the line, which may hold a password.
        return f"is not right {language}, line {mark.line + 1}: {getattr(error, 'problem', 'it cannot be read')}"
    return f"is not right {language}: {error}"


def _yaml(text: str) -> tuple[Mapping[str, Any], Mapping[SettingPath, int]]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        reader = _Yaml(loader)
        content = reader.value(node, ()) if node is not None else {}
    finally:
        loader.dispose()
    if content is not None and not isinstance(content, dict):
        raise ValueError("it has to be a mapping of names to values")
    return content or {}, reader.lines


class _Yaml:
    """Reads a YAML document and keeps the line of each key. Nothing but plain data can be made."""

    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._seen: set[int] = set()
        self.lines: dict[SettingPath, int] = {}

    def value(self, node: yaml.Node, path: SettingPath) -> Any:
        """The content of a node; keys as written, since YAML takes `on` for true and 1 for a number."""
        if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
            raise ValueError(f"line {node.start_mark.line + 1}: the tag {node.tag} means nothing here")
        if isinstance(node, yaml.MappingNode):
            self._refuse_repeated_keys(node)
            self._loader.flatten_mapping(node)
            content: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = str(key_node.value)
                self.lines[*path, key] = key_node.start_mark.line + 1
                content[key] = self.value(value_node, (*path, key))
            return content
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, str(index))) for index, item in enumerate(node.value)]
        value = self._loader.construct_object(node)
        return value if isinstance(value, str | None) else Plain(str(node.value), value)

    def _refuse_repeated_keys(self, node: yaml.MappingNode) -> None:
        # An anchor's node comes by again with its `<<` filled in, which repeats keys rightly.
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        keys: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in keys:
                raise ValueError(f"line {key_node.start_mark.line + 1}: the key {key_node.value} stands there twice")
            keys.add(str(key_node.value))
