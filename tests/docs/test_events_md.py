"""docs/events.md names every event as the code has it, and its example works."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workfleet
import workfleet.events
from tests.app.working import Worker, until
from workfleet.events import PoolFailed, reference
from workfleet.events.event import Event

PATH = Path(__file__).parents[2] / "docs" / "events.md"
DOCUMENT = PATH.read_text("utf-8")


def test_the_table_is_made_from_the_classes() -> None:
    assert reference.written(DOCUMENT) == DOCUMENT, "run: python -m workfleet.events.reference docs/events.md"
    with pytest.raises(ValueError, match="needs the lines"):
        reference.written("# Events\n")


def test_every_class_is_in_the_catalogue_once_and_says_its_text_from_its_facts() -> None:
    modules = [
        importlib.import_module(f"workfleet.events.{each.name}")
        for each in pkgutil.iter_modules(workfleet.events.__path__)
    ]
    written = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    events = {kind for kind in written if issubclass(kind, Event) and kind is not Event}
    assert set(reference.events()) == events
    names = [kind.wire_name for kind in events]
    assert sorted(set(names)) == sorted(names)
    for kind in events:
        assert set(re.findall(r"{(\w+)", kind.text)) <= set(kind.__struct_fields__), kind


def test_the_catalogue_has_what_the_code_tells_and_nothing_else() -> None:
    """Who makes an event publishes it; a class that nobody makes would be a promise that nobody keeps."""
    src = Path(workfleet.__file__).parent
    made: set[str] = set()
    for path in src.rglob("*.py"):
        if path.parent.name == "events":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        known = dict(imported(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
                made.add(known[node.func.id])
            if isinstance(node, ast.ClassDef):
                assert not {base.id for base in node.bases if isinstance(base, ast.Name)} & known.keys(), (
                    f"{path}: {node.name} is an event outside of the catalogue"
                )
    assert made == {kind.__name__ for kind in reference.events()}


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The classes of the catalogue that a module imports, by the names that it gives them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and "events" in node.module.split("."):
            for name in node.names:
                kind = getattr(workfleet.events, name.name, None)
                if isinstance(kind, type) and issubclass(kind, Event):
                    yield name.asname or name.name, kind.__name__


async def test_the_example_hears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"^```python\n# watch\.py\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "watch.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    watch = importlib.import_module("watch")
    try:
        async with Worker(watch.app) as worker:
            worker.runtime.bus.publish(PoolFailed(pool="images", reason="no memory"))
            await until(lambda: watch.seen)
        assert watch.seen == ["pool images has failed and takes no calls: no memory"]
    finally:
        sys.modules.pop("watch")
