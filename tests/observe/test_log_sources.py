"""Every line of the product comes from an event: nothing else in it logs, prints or warns, but what answers a person
at the command line."""

from __future__ import annotations

import ast
from pathlib import Path

import workfleet

ROOT = Path(workfleet.__file__).parent
LOGGING_IS_THEIRS = {
    "app/builtins.py",  # gives the application a logger of its own
    "modules/module.py",  # takes a handler of the application
}
"""Files that name `logging` and log nothing, beside those whose subject it is."""
TO_PEOPLE = {
    "app/supervisor/supervisor.py",  # says why it cannot start, where nobody else does
    "observe/trace.py",  # in a client's process, where nobody hears of events
    "pools/child.py",  # a child that cannot be built says so to its parent
    "stores/sqlite/lane.py",  # what fails after a commit concerns no caller, and stores hear of no events
    "settings/reference.py",
    "events/reference.py",
}
CALLS = {"print", "warn", "print_exception", "print_exc", "on_standard_error"}


def named(tree: ast.AST) -> set[str]:
    """Modules that are imported, and calls that say something."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if (name in CALLS and "findings" not in ast.unparse(called)) or (
                name == "write" and "std" in ast.unparse(called)
            ):
                found.add(name)
    return found


def test_nothing_else_logs() -> None:
    speakers: dict[str, set[str]] = {}
    for file in ROOT.rglob("*.py"):
        name = file.relative_to(ROOT).as_posix()
        said = named(ast.parse(file.read_text("utf-8"))) & {"logging", "structlog", "write", *CALLS}
        if not name.startswith(("observe/logs/", "cli/")) and said:
            speakers[name] = said
    loggers = {name for name, said in speakers.items() if said & {"logging", "structlog"}}
    assert loggers == LOGGING_IS_THEIRS
    assert {name for name in speakers if name not in loggers} <= TO_PEOPLE


def test_the_look_finds_what_logs() -> None:
    text = (
        "import logging\nfrom structlog import x\nprint(1)\nwarnings.warn('x')\nsys.stderr.write('x')\nfile.write('x')"
    )
    assert named(ast.parse(text)) == {"logging", "structlog", "print", "warn", "write"}
