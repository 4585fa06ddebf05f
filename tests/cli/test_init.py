"""`init`: what it makes works as printed, and nothing is ever overwritten."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from workfleet.cli.init import _name

from .conftest import Project, Ran


def steps(ran: Ran) -> list[list[str]]:
    """The printed commands, as a shell reads them."""
    lines = ran.out.split("What to do next:\n")[1].splitlines()
    return [shlex.split(line, comments=True) for line in lines]


def test_what_is_printed_works(bare: Project) -> None:
    ran = bare("init", "demo")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Made {', '.join(str(Path('demo', file)) for file in FILES)}\n")
    cd, *commands = steps(ran)
    assert cd == ["cd", "demo"]
    demo = Project(bare.folder / "demo")
    enqueue = next(one for one in commands if one[1] == "enqueue")
    assert demo(*enqueue[1:]).code == 0
    assert commands[0] == ["workfleet", "run", "--until-idle"]
    code, out, err = demo(*commands[0][1:])
    assert code == 0, err
    assert out.splitlines()[-1].startswith("4 done, 0 failed, 0 given back, 0 crashes, in ")
    ids = [document["id"] for document in demo("jobs", "ls", "--json").documents if document["name"] == "greet"]
    results = {demo("jobs", "show", each, "--json").documents[0]["result"] for each in ids}
    assert results == {"greeted Ada", "greeted Grace", "greeted you"}
    looks = [one for one in commands if one[1] in ("status", "jobs")]
    assert [demo(*one[1:]).code for one in looks] == [1, 0]


FILES = ("app.py", "workfleet.yaml", ".gitignore")


def test_the_folder_itself_is_the_default(tmp_path: Path) -> None:
    folder = tmp_path / "2 My Shop!"
    folder.mkdir()
    ran = Project(folder)("init")
    assert ran.code == 0
    assert steps(ran)[0] == ["workfleet", "run", "--until-idle"]
    assert sorted(os.listdir(folder)) == sorted([*FILES, ".workfleet"])
    assert os.listdir(folder / ".workfleet")[0].startswith("app-2-my-shop.db")


@pytest.mark.parametrize("taken", ["app.py", "workfleet.yaml", "workfleet.yml"])
def test_nothing_is_overwritten_and_nothing_made(taken: str, bare: Project) -> None:
    bare.write(f"demo/{taken}", "mine")
    code, out, err = bare("init", "demo")
    assert (code, out) == (2, "")
    assert err == f"Error: demo has {taken} already; init overwrites nothing: take another folder\n"
    assert os.listdir(bare.folder / "demo") == [taken]
    assert (bare.folder / "demo" / taken).read_text() == "mine"


def test_a_gitignore_is_left_alone_and_that_is_said(bare: Project) -> None:
    bare.write("demo/.gitignore", "mine")
    code, _, err = bare("init", "demo")
    assert code == 0
    assert ".workfleet/ should be in it" in err
    assert (bare.folder / "demo/.gitignore").read_text() == "mine"


@pytest.mark.parametrize(
    ("pyproject", "code"), [("[project]\nname = 'x'\n", 0), ("[tool.workfleet]\n", 2), ("no toml [", 2)]
)
def test_in_a_project_that_exists(pyproject: str, code: int, bare: Project) -> None:
    bare.write("pyproject.toml", pyproject)
    ran = bare("init")
    assert ran.code == code
    assert (bare.folder / "app.py").exists() is (code == 0)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("demo", "demo"), ("My Shop", "my-shop"), ("9lives", "app-9lives"), ("été", "t"), ("--", "app"), ("a.b", "a-b")],
)
def test_names(folder: str, name: str, tmp_path: Path) -> None:
    assert _name(tmp_path / folder) == name


def test_a_folder_that_cannot_be_made(bare: Project) -> None:
    bare.write("file", "")
    code, out, err = bare("init", "file/demo")
    assert (code, out) == (2, "")
    assert "the project cannot be made" in err
