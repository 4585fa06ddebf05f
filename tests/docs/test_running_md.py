"""Every command that docs/running.md shows for looking and acting works as shown, in their order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.cli.conftest import Project
from tests.cli.test_main import ALL
from workfleet.model.fleet import ChildReport, PoolReport, WorkerRecord
from workfleet.ports.stores import Store
from workfleet.supervision.identity import own_identity
from workfleet.testing.contracts.harness import pulse

DOCUMENT = Path(__file__).parents[2] / "docs" / "running.md"
APP = """
from workfleet import App, Job

app = App("shop")


@app.handler("welcome", queue="emails", attempts=1)
async def welcome(job: Job[dict[str, int]]) -> None:
    job.log("ada@example.com")
    if job.data["user_id"] == 7:
        raise ValueError("timeout of ada@example.com")


@app.schedule(cron="30 2 * * *", timezone="Europe/Berlin")
async def nightly() -> None: ...
"""


def commands() -> list[str]:
    section = DOCUMENT.read_text().split("## Looking and acting")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_works_as_shown(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("app.py", APP)
    project.write("workfleet.yaml", "app: app.py\n")
    assert project("run", "--until-idle").code == 0
    assert project("enqueue", "emails", "welcome", '{"user_id": 7}', "--id", "welcome-7").code == 0
    assert project("run", "--until-idle").code == 0
    project.in_store(lambda store: store.locks.acquire("lock:ledger:acme", "web:token", 60_000))
    project.in_store(with_pool)
    shown = commands()
    assert len(shown) == 43
    told = {}
    for line in shown:
        name, *arguments = shlex.split(line, comments=True)
        assert name == "workfleet"
        ran = project(*arguments)
        assert ran.code == (1 if arguments == ["status"] else 0), (line, ran)
        told[line.split("  #")[0].strip()] = ran.out
    assert told["workfleet jobs promote welcome-8"] == "1 job made ready\n"
    assert told["workfleet jobs cancel welcome-8"] == "1 job cancelled\n"
    assert told["workfleet jobs retry --queue emails --text timeout --dry-run"] == (
        "1 job would be retried: welcome-7\n"
    )
    assert "welcome-7" in told["workfleet jobs ls --queue emails --text ada@example.com"]
    assert told["workfleet schedules remove report:acme --yes"] == "report:acme is removed\n"


async def with_pool(store: Store) -> None:
    await store.fleet.register(WorkerRecord(id="w", identity=own_identity()))
    child = ChildReport(slot=0, pid=1, state="ready")
    images = PoolReport(name="images", state="running", size=1, ready=1, children=(child,))
    await pulse(store, worker="w", pools=(images,))


def test_the_verbs_of_the_document_are_those_of_the_command_line() -> None:
    verbs = {" ".join(path) for path, found in ALL.items() if not hasattr(found, "commands")}
    text = DOCUMENT.read_text()
    left_out = {verb for verb in verbs if f"workfleet {verb}" not in text}
    assert left_out == {"dev", "init", "version", "workers stop"}
