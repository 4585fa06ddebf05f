"""docs/guide.md is true: its blocks are modules that import, type-check as written and start as applications, and its
tables name every option that there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workfleet.model.options import HandlerOptions, JobOptions, ScheduleOptions
from workfleet.model.queue import QueueOptions
from workfleet.pools.marks import ProcessOptions

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "guide.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
FRAGMENTS = [block for block in BLOCKS if block.startswith("# fragment")]
MODULES = {
    match.group(1): block
    for block in BLOCKS
    if block not in FRAGMENTS and (match := re.match(r"# (\w+)\.py\n", block)) is not None
}
APPS = ["shop", "orders", "billing", "reports", "books", "mailing", "images", "ledger"]

CHECK = """
import asyncio, importlib, sys
from datetime import timedelta
from workfleet.testing import Fleet

async def main():
    made = {name: importlib.import_module(name) for name in sys.argv[1:]}
    for name, module in made.items():
        if hasattr(module, "app"):
            async with Fleet(module.app) as fleet:
                await drive(name, module, fleet)
                assert fleet.failed == [] or name in ("orders", "billing"), (name, fleet.failed)
                print("ran", name)

async def result(fleet, job):
    ref = await fleet.enqueue(job)
    await fleet.run_until_idle()
    return await ref.result()

async def drive(name, module, fleet):
    if name == "shop":
        assert await result(fleet, module.welcome.job(module.Welcome(7))) == "sent to 7"
        await fleet.schedules.trigger("remind")
        await fleet.run_until_idle()
        assert len(fleet.enqueued) == 4
    elif name == "orders":
        (archived,) = await result(fleet, module.charge.job(module.Order(3, module.Decimal(9))))
        assert (await fleet.jobs.get(archived)).result == b"3"
        for total, options, outcome in ((0, {}, "cancelled"), (-1, {}, "failed"), (5, {"tags": ["hold"]}, "snoozed")):
            ref = await fleet.enqueue(module.charge.job(module.Order(4, module.Decimal(total)), **options))
            await fleet.travel("1s")
            assert [each.outcome for each in await fleet.attempts(ref)] == [outcome], (total, outcome)
        ref = await fleet.enqueue(module.charge.job(module.Order(5, module.Decimal(5)), metadata={"bank": "closed"}))
        await fleet.travel("9m")
        assert len(await fleet.attempts(ref)) == 1
        await fleet.travel("2m")
        assert len(await fleet.attempts(ref)) == 2
    elif name == "billing":
        job = module.Bills.send.job
        assert await result(fleet, job(module.Bill(7, "gold"), group="{data.tenant}")) == "bill 7 of gold"
        ref = await fleet.enqueue(job(module.Bill(0, "gold")))
        await fleet.run_until_idle()
        assert len(await fleet.attempts(ref)) == 1
        assert module.tiers(2, None) == timedelta(minutes=2)
    elif name == "reports":
        await result(fleet, module.weekly.job("acme"))
        assert {each.name for each in await fleet.schedules.list()} == {"nightly", "weekly acme"}
        assert [run.outcome for run in await fleet.runs("nightly")] == ["completed"]
        await fleet.travel("8d")
        assert "weekly acme" in {job.schedule for job in await fleet.jobs.list(queue="reports")}
    elif name == "mailing":
        assert await result(fleet, module.Emails.send.job("a letter")) == "a letter by localhost"
        await fleet.travel("1m")
        assert len(await fleet.runs("bounces")) == 1
    elif name == "images":
        assert await result(fleet, module.Images.thumbnail.job("a photo")) == 3
    elif name == "ledger":
        assert await result(fleet, module.close_month.job("2030-01")) == "2030-01"
        assert await result(fleet, module.rebuild.job()) >= 1
        await fleet.schedules.trigger("measure")
        await fleet.run_until_idle()
        (measured,) = await fleet.runs("measure")
        assert measured.outcome == "completed"

async def both(app, send):
    # What sends, and a worker that works it off.
    worker = asyncio.create_task(app.run())
    answer = await asyncio.to_thread(send.signup, 5)
    await send.main()
    worker.cancel()
    await asyncio.wait({worker})
    send.jobs.close()
    return answer

asyncio.run(main())
print(asyncio.run(both(sys.modules["shop"].app, sys.modules["send"])))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, block in MODULES.items():
        (tmp_path / f"{name}.py").write_text(block, "utf-8")
    (tmp_path / "pyproject.toml").write_text("", "utf-8")  # here the project begins
    return tmp_path


def test_every_block_is_a_module_or_says_that_it_is_none() -> None:
    assert [*MODULES] == ["shop", "orders", "send", "billing", "reports", "books", "mailing", "images", "ledger"]
    assert len(FRAGMENTS) == 0
    assert len(BLOCKS) == len(MODULES) + len(FRAGMENTS) == DOCUMENT.count("```python")
    for name, block in zip([*MODULES], BLOCKS, strict=True):
        compile(block, f"docs/guide.md: {name}.py", "exec")


def test_the_modules_import_and_their_applications_do_what_they_say(project: Path) -> None:
    (project / "check.py").write_text(CHECK, "utf-8")
    done = _python(project, "-W", "error", "check.py", *MODULES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [*(f"ran {name}" for name in APPS), "True sent to 7", "sent to 5"]


def test_the_tables_name_every_option() -> None:
    cells = re.findall(r"^\| ([^|]*) \|", DOCUMENT, flags=re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    inline = set(re.findall(r"`(\w+)`", DOCUMENT))
    for options in (HandlerOptions, JobOptions, ProcessOptions, QueueOptions):
        assert options.__optional_keys__ <= named, options
    assert ScheduleOptions.__optional_keys__ <= inline
    assert "/home/" not in DOCUMENT
    assert "sqlite:////" not in DOCUMENT


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", DOCUMENT)
    assert {"settings.md", "running.md", "testing.md"} <= set(links)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WORKER_")}
    environment["WORKER_STORE"] = f"sqlite://{folder}/shop.db"
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
