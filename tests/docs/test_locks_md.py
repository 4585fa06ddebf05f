"""docs/locks.md is true: its example runs, its tables name every option with its default, its commands work."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.conftest import Project
from workfleet import App
from workfleet.app.composition import compose
from workfleet.guards.declare import locked
from workfleet.locks.locks import Locks
from workfleet.modules.builtin import LockOptions
from workfleet.ports.stores import Store
from workfleet.settings.sections import LockSettings
from workfleet.testing import Fleet
from workfleet.units import Duration

DOCUMENT = (Path(__file__).parents[2] / "docs" / "locks.md").read_text("utf-8")
PYTHON = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE))


def module_of(name: str) -> ModuleType:
    module = ModuleType(name)
    exec(compile(PYTHON[name], f"{name}.py", "exec"), module.__dict__)
    return module


def table(section: str) -> dict[str, str]:
    """The defaults of a section's table, by option."""
    text = DOCUMENT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text, flags=re.MULTILINE))


async def test_the_example_runs() -> None:
    ledger = module_of("ledger")
    app: App = ledger.app
    async with Fleet(app, now="2027-01-01T00:00Z") as fleet:
        first = await fleet.enqueue(ledger.close.job("acme"))
        async with fleet.locks.lock("ledger:bolt"):
            other = await fleet.enqueue(ledger.close.job("bolt"))
            await fleet.run_until_idle()
        assert await first.result() == "done"
        assert await other.result() == "test is at it"
        await fleet.travel("3h")
        assert [run.outcome for run in await fleet.runs("nightly")] == ["completed"]
        ((fence, entry),) = ledger.entries
        assert entry == "acme is closed"
        with pytest.raises(PermissionError):
            await ledger.write("late", fence - 1)


def test_the_tables_name_every_option_with_its_default() -> None:
    module = table("Options of the module")
    assert set(module) == LockOptions.__optional_keys__ == set(LockSettings.model_fields)
    for name, said in module.items():
        default = LockSettings.model_fields[name].default
        assert said == ("none" if default is None else str(default)), name
        assert isinstance(default, (Duration, str, int, type(None)))
    options = table("`@locked`")
    keywords = {
        name: parameter
        for name, parameter in inspect.signature(locked).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert set(options) == set(keywords)
    assert options["on_busy"] == f'`"{keywords["on_busy"].default}"`'
    first = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", DOCUMENT.split("\n## ")[0], flags=re.MULTILINE))
    taken = inspect.signature(Locks.lock).parameters
    assert set(first) == {name for name, each in taken.items() if each.kind is inspect.Parameter.KEYWORD_ONLY}


def test_the_other_example_names_a_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_HOST", "redis.internal")
    assert compose(module_of("elsewhere").app).locks_url == "redis://redis.internal:6379/0?db=5"


def test_the_commands_work_as_shown(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("ledger.py", PYTHON["ledger"])
    project.write("workfleet.yaml", "app: ledger.py\n")

    async def take(store: Store) -> None:
        await store.locks.acquire("lock:ledger:acme", "web:token", 60_000)

    project.in_store(take, app="ledger")
    (block,) = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    told = []
    for line in block.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        ran = project(*arguments)
        assert (name, ran.code) == ("workfleet", 0), (line, ran)
        told.append(ran.out)
    assert told[2:] == ["ledger:acme, held by web, would be released\n", "ledger:acme is released\n"]


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", DOCUMENT)
    assert [link for link in links if not (Path(__file__).parents[2] / "docs" / link).exists()] == []
