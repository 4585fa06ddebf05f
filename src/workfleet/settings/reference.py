"""The table of all settings in the documentation, made from the models: `python -m workfleet.settings.reference FILE`.

A test holds the file to it. What is written between the two marks is replaced, everything else is left alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .given import SettingPath
from .names import FALLBACKS, SAME, env_name, file_key
from .sections import BUILT_IN
from .tree import Group, Leaf, Node, default_text, leaves, tree

BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"
_HEAD = "| environment | in files | default | what it is | allowed |\n|---|---|---|---|---|"


def tables() -> str:
    """Markdown: one table for the worker's own settings and one for each section."""
    root = tree(BUILT_IN)
    own = {name: node for name, node in root.fields.items() if isinstance(node, Leaf)}
    parts = [_table(root, "Of the worker", list(own.values()), "")]
    parts += [_section(root, name, node) for name, node in root.fields.items() if isinstance(node, Group)]
    return "\n\n".join(parts)


def _section(root: Group, name: str, node: Group) -> str:
    settings = list(_settings(node))
    return _table(root, f"Section `{name}`", settings, node.note)


def _settings(node: Node) -> Iterator[Leaf]:
    """The settings below a node, free names written as NAME."""
    if isinstance(node, Leaf):
        yield node
        return
    entry = node.child("NAME") if node.entry is not None else None
    if entry is not None:
        yield from leaves(entry)
    for child in node.fields.values():
        yield from _settings(child)


def _table(root: Group, title: str, settings: list[Leaf], note: str) -> str:
    text = f"{note[0].upper()}{note[1:]}.\n\n" if note else ""
    return f"### {title}\n\n{text}{_HEAD}\n" + "\n".join(_line(root, leaf) for leaf in settings)


def _line(root: Group, leaf: Leaf) -> str:
    cells = (
        f"`{env_name(root, leaf.path)}`",
        f"`{file_key(root, leaf.path)}`",
        default_text(root, leaf),
        leaf.description + _also(root, leaf.path),
        leaf.allowed,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _also(root: Group, path: SettingPath) -> str:
    """Other names of the same setting."""
    if (target := SAME.get(path)) is not None:
        return f" The same setting as `{env_name(root, target)}`."
    fallback = [name for name, aim in FALLBACKS.items() if aim == path]
    return f" `{fallback[0]}` is used where this is not given." if fallback else ""


def written(document: str) -> str:
    """The document with the tables between its marks. ValueError: it has no marks."""
    if BEGIN not in document or END not in document:
        raise ValueError(f"the document needs the lines {BEGIN} and {END}")
    body = f"{BEGIN}\n\n{tables()}\n\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: body, document, flags=re.DOTALL)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
