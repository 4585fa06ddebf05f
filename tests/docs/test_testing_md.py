"""docs/testing.md is one project and its tests, and the test of a store: both are written to a folder and run as a user
would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workfleet.testing
from workfleet.testing import Fleet, PoolDouble

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "testing.md").read_text("utf-8")
OF_PROJECTS, OF_STORES = DOCUMENT.split("## A store of your own")


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_the_project_and_all_its_tests_pass(tmp_path: Path) -> None:
    program, *tests = blocks(OF_PROJECTS)
    assert program.startswith("# shop.py\n")
    (tmp_path / "shop.py").write_text(program, "utf-8")
    (tmp_path / "test_shop.py").write_text("\n\n".join(tests), "utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=tmp_path, env=_plain(), capture_output=True, text=True, check=False)
    count = sum(block.count("async def test_") for block in tests)
    assert count == 11
    assert re.search(rf"^{count} passed", done.stdout, flags=re.MULTILINE), done.stdout + done.stderr


@pytest.mark.full
def test_the_test_of_a_store_passes(tmp_path: Path) -> None:
    (tmp_path / "test_mystore.py").write_text("\n\n".join(blocks(OF_STORES)), "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nmarkers = slow: by hand\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    # The rest of the suite runs in tests/stores.
    command += ["-k", "TestLocks or TestKeys or test_histories", "test_mystore.py"]
    done = subprocess.run(command, cwd=tmp_path, env=_plain(), capture_output=True, text=True, check=False)
    found = re.search(r"^(\d+) passed, (\d+) deselected", done.stdout, flags=re.MULTILINE)
    assert found, done.stdout + done.stderr
    assert int(found[1]) > 10
    assert int(found[2]) > 200


def _plain() -> dict[str, str]:
    """The environment without what whoever runs the suite wants of it."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}


def test_every_name_of_the_table_is_there() -> None:
    names = re.findall(r"^\| `(\w+)", DOCUMENT.replace(_of_doubles(), ""), flags=re.MULTILINE)
    assert len(names) == 12
    for name in names:
        known = hasattr(Fleet, name) or name in Fleet.__init__.__annotations__ or name in vars(Fleet(_app()))
        assert known, name


def test_the_table_of_doubles_is_what_they_offer() -> None:
    rows = re.findall(r"^\| ([^|]*) \|", _of_doubles(), flags=re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    inner = {"name", "options", "call", "stream", "run", "aclose", "stats"}
    there = {name for name in dir(PoolDouble("p", _nothing)) if not name.startswith("_")}
    assert names == there - inner
    assert inner <= there


def test_everything_that_is_offered_is_mentioned() -> None:
    public = {name for name in vars(Fleet) if not name.startswith("_")} - {"session", "clock"}
    assert public <= set(re.findall(r"`(\w+)", DOCUMENT)) | set(re.findall(r"fleet\.(\w+)", DOCUMENT))
    assert {"Fleet", "job", "said"} <= set(workfleet.testing.__all__)


def _of_doubles() -> str:
    """The table of what a pool's double offers."""
    found = re.search(r"^\| of a double .*?(?=^$)", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


async def _nothing() -> object:
    return None


def _app() -> workfleet.App:
    return workfleet.App("shop")
