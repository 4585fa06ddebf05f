"""The project's own tools: file sizes, pins and the chooser of the interpreter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import check_sizes

ROOT = Path(__file__).parents[2]


def _file(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n" * lines)


def test_400_lines_pass_with_a_word_and_401_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _file(tmp_path, "src/a.py", 250)
    _file(tmp_path, "src/b.py", 251)
    _file(tmp_path, "tests/deep/c.py", 400)
    assert check_sizes.main(tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tests/deep/c.py: 400 lines (a smell above 250)",
        "src/b.py: 251 lines (a smell above 250)",
    ]
    _file(tmp_path, "bench/d.py", 401)
    assert check_sizes.main(tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[0] == "bench/d.py: 401 lines, 400 at most: split it by what it does"


def _declared() -> Iterator[Requirement]:
    """Every requirement in pyproject.toml but those on ourselves and on other groups."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for group in (*project["project"]["optional-dependencies"].values(), *project["dependency-groups"].values()):
        texts += [text for text in group if isinstance(text, str)]
    return (requirement for requirement in map(Requirement, texts) if requirement.name != "workfleet")


def _pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def test_every_requirement_is_pinned_within_its_range() -> None:
    pins = _pins()
    for requirement in _declared():
        (pin,) = pins[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version), f"{requirement} is pinned at {pin.version}"


def test_pins_name_no_place_to_install_from() -> None:
    assert not re.search(r"(?m)://|^-", (ROOT / "constraints.txt").read_text())


@pytest.mark.skipif(sys.platform == "win32", reason="the make targets are for POSIX systems")
def test_the_environment_script_finds_this_python_and_says_no_to_one_that_is_too_old(tmp_path: Path) -> None:
    script = str(ROOT / "tools" / "env.sh")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    bin_first = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    found = subprocess.run([script, "--find", version], env=bin_first, capture_output=True, text=True, check=True)
    asked = "import sys; print(*sys.version_info[:2], sep='.')"
    told = subprocess.run([found.stdout.strip(), "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == version

    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = subprocess.run(
        [script, str(tmp_path / "env"), "all", str(old)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "is not a Python 3.11 or newer" in refused.stderr
    assert not (tmp_path / "env").exists()
