"""docs/pools.md is true: its example runs, its tables name every option with its default, and every error, and its
commands are understood."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from pydantic import BaseModel

from workfleet import App, errors
from workfleet.cli.main import _commands
from workfleet.pools.marks import ProcessOptions
from workfleet.settings.pools import PoolsSettings
from workfleet.testing import Fleet
from workfleet.units import Duration

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "pools.md").read_text("utf-8")
PYTHON = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE))


def rows(section: str) -> list[tuple[list[str], str]]:
    """The first two cells of a section's table: the names in the first, and the second as it is."""
    text = DOCUMENT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", text, flags=re.MULTILINE)
    return [(re.findall(r"`([\w.]+)`", first), second) for first, second in found]


def defaults(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    """The default of each setting by its dotted name, as it is written."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            found |= defaults(type(default), f"{prefix}{name}.")
        elif name != "overrides":
            found[prefix + name] = _text(default)
    return found


def _text(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    assert isinstance(default, str | int | float | Duration | None)
    return "none" if default is None else str(default)


async def test_the_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = ModuleType("gallery")
    monkeypatch.setitem(__import__("sys").modules, "gallery", gallery)
    exec(compile(PYTHON["gallery"], "gallery.py", "exec"), gallery.__dict__)
    app: App = gallery.app
    async with Fleet(app) as fleet:
        jobs = gallery.Images
        sent = [
            await fleet.enqueue(job)
            for job in (jobs.thumbnail.job("photo"), jobs.count.job("a" * 9), jobs.checksum.job("a"))
        ]
        await fleet.run_until_idle()
        assert [await ref.result() for ref in sent] == [3, 3, 97]
        fleet.pool(gallery.ImageWorker).exceed_memory_next(used="600MB")
        ref = await fleet.enqueue(jobs.thumbnail.job("bomb"))
        await fleet.run_until_idle()
        assert await ref.result() == 0
        assert await fleet.jobs.logs(ref.id) == ["too large: 600000000 of 512000000 bytes"]


def test_the_table_names_every_option_with_its_default() -> None:
    table = {name: default for names, default in rows("Options") for name in names}
    assert {name.partition(".")[0] for name in table} == ProcessOptions.__optional_keys__
    of_one = {"hash_key": "none", "min_size": "none", "max_size": "none"}
    assert table == {**defaults(PoolsSettings), **of_one}


def test_the_table_of_errors_names_every_error_of_pools() -> None:
    of_pools = {
        name for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.PoolError) and kind is not errors.PoolError
    }  # fmt: skip
    assert {name for names, _ in rows("Errors") for name in names} == of_pools | {"PayloadRejected"}


def test_its_commands_are_understood() -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    for line in block.splitlines():
        program, group, verb, *arguments = shlex.split(line, comments=True)
        assert program == "workfleet"
        commands = _commands()
        found = commands.get_command(click.Context(commands), group)
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), verb)
        assert command is not None
        command.make_context(verb, arguments)


def test_every_link_leads_somewhere_and_others_lead_here() -> None:
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", DOCUMENT)}
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
    assert "docs/pools.md" in (ROOT / "README.md").read_text("utf-8")
    assert "(pools.md)" in (ROOT / "docs" / "guide.md").read_text("utf-8")
