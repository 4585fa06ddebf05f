"""docs/guards.md is true: its example runs, its tables name every guard and option with its default."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import workfleet
from workfleet.events import (
    CallLimited,
    CallRetried,
    CircuitClosed,
    CircuitHalfOpened,
    CircuitOpened,
    StoreTrouble,
)
from workfleet.guards import declare
from workfleet.model.policy import exponential
from workfleet.testing import Fleet

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "guards.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
GUARDS = ("locked", "idempotent", "circuit_breaker", "rate_limit", "metric", "trace", "retry", "timeout")


async def test_the_example_runs() -> None:
    shop = ModuleType("shop")
    exec(compile(EXAMPLE, "shop.py", "exec"), shop.__dict__)
    async with Fleet(shop.app, now="2027-01-01T00:00Z") as fleet:
        refs = [await fleet.enqueue(shop.send.job(f"user {number}")) for number in range(150)]
        dollars = await fleet.enqueue(shop.Prices.price.job("USD"))
        await fleet.run_until_idle()
        assert len(shop.sent) == 100
        await fleet.travel("1m")
        assert len(shop.sent) == 150
        assert await refs[149].result() == "sent to user 149"
        assert {len(await fleet.attempts(ref)) for ref in refs} == {1, 2}
        assert await dollars.result() == 9.0
        for _ in range(5):
            await fleet.enqueue(shop.Prices.price.job("XXX", attempts=1))
            await fleet.run_until_idle()
        unknown = await fleet.enqueue(shop.Prices.price.job("XXX"))
        await fleet.run_until_idle()
        assert await unknown.result() == 10.0  # after five failures the fallback answers
        await fleet.travel("15m")
        assert [run.outcome for run in await fleet.runs("rates")] == ["completed"]


def table(guard: str) -> dict[str, str]:
    """The defaults of a guard's table, by option."""
    section = DOCUMENT.split(f"\n## `@{guard}`\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|([^|]*)\|", section, flags=re.MULTILINE)
    return {name: default.strip() for names, default in rows for name in re.findall(r"\w+", names)}


def test_the_tables_name_every_option_with_its_default() -> None:
    for guard in ("circuit_breaker", "rate_limit", "idempotent", "retry"):
        made: Callable[..., Any] = getattr(declare, guard)
        parameters, said = inspect.signature(made).parameters, table(guard)
        assert {name: default for name, default in said.items() if name in parameters}.keys() == parameters.keys(), (
            guard
        )
        for name, parameter in parameters.items():
            if parameter.default is inspect.Parameter.empty:
                assert said[name] == "", name
            elif name == "backoff":
                assert parameter.default == eval(said[name], {"exponential": exponential})
            else:
                assert said[name] == {None: "none"}.get(parameter.default, str(parameter.default)), name


def test_every_guard_is_there_and_public() -> None:
    public = {name for name in declare.__dict__ if getattr(declare, name) is getattr(workfleet, name, None)}
    assert public & set(GUARDS) == set(GUARDS)
    for guard in GUARDS:
        assert re.search(rf"^## .*`@{guard}`", DOCUMENT, flags=re.MULTILINE), guard


def test_its_events_and_errors_exist() -> None:
    for event in (CallLimited, CallRetried, CircuitClosed, CircuitHalfOpened, CircuitOpened, StoreTrouble):
        assert f"`{event.wire_name}`" in DOCUMENT, event
    for name in re.findall(r"`([A-Z][A-Za-z]+)`", DOCUMENT):
        assert hasattr(workfleet, name) or name in ("None", "Skipped"), name


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", DOCUMENT)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
