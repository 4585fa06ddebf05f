"""docs/events.md names every event as the code has it, and its example works."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest

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
