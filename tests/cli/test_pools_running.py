"""The pools of a fleet that runs: what `pools ls` and `status` say of them, what `scale` and `recycle` do to them, and
that a worker with a pool in a crash loop is not ready while it lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Project, wait_for
from .running import Running, running

APP = """
import os

from workfleet import App, Job, Pool, Module, handler, process, public, queue

@process("images", size=1)
class ImageWorker:
    @public
    def resize(self, name: str) -> int:
        return os.getpid()

@process("broken", size=1)
class Broken:
    def __init__(self) -> None:
        print("no camera here", flush=True)
        os._exit(7)

    @public
    def work(self) -> None: ...

@queue("photos")
class Photos:
    def __init__(self, images: Pool[ImageWorker], broken: Pool[Broken]) -> None:
        self.images, self.broken = images, broken

    @handler(attempts=1)
    async def thumb(self, job: Job[None]) -> int:
        return await self.images.resize("a")

    @handler(attempts=1)
    async def doomed(self, job: Job[None]) -> None:
        await self.broken.work()

app = App("shop", modules=[Module("photos", jobs=[ImageWorker, Broken, Photos])])
"""
SOON = {
    "WORKER_POLL": "200ms",
    "WORKER_POOLS__BROKEN__RESTART_POLICY__MAX_RESTARTS": "2",
    "WORKER_POOLS__BROKEN__RESTART_POLICY__DELAY": "0s",
    "WORKER_POOLS__BROKEN__RESTART_POLICY__BACKOFF__INITIAL": "1ms",
    "WORKER_POOLS__BROKEN__RESTART_POLICY__BACKOFF__MAX": "10ms",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("app.py", APP)
    project.write("workfleet.yaml", "app: app.py\n")
    return project


def pool(project: Project, name: str) -> dict[str, Any]:
    ran = project("pools", "ls", "--json")
    assert ran.code in (0, 3, 4), ran.err
    return next((each for each in ran.documents if each["pool"] == name), {})


def pids(document: dict[str, Any]) -> set[int]:
    return {child["pid"] for child in document["children"]}


def job(project: Project, name: str, job_id: str) -> dict[str, Any]:
    """Enqueue a job and wait until it has ended."""
    ran = project("enqueue", "photos", name, "--id", job_id)
    assert ran.code == 0, ran.err

    def ended() -> dict[str, Any] | None:
        (document,) = project("jobs", "show", job_id, "--json").documents
        return document if document["state"] in ("completed", "failed") else None

    found: dict[str, Any] = wait_for(ended, f"{job_id} has ended")
    return found


def drained(run: Running) -> None:
    run.process.terminate()
    assert run.end()[0] == 0, "".join(run.lines)


def test_pools_of_a_running_fleet_are_listed_scaled_and_recycled(project: Project) -> None:
    with running(project, "run", **SOON) as run:
        run.wait_for("ready, listening")
        first = job(project, "thumb", "one")["result"]
        ready = wait_for(
            lambda: (found := pool(project, "images")) and found["ready"] == 1 and found["calls"] == 1 and found,
            "its child is told of",
        )
        assert (ready["state"], ready["size"], ready["failures"], ready["restarts"]) == ("running", 1, 0, 0)
        assert {first} == pids(ready)
        assert pool(project, "cpu")["state"] == "new"

        assert project("pools", "scale", "images", "2") == (0, "1 worker told to have 2 children in pool images\n", "")
        grown = wait_for(
            lambda: (found := pool(project, "images"))["ready"] == 2 and not found["orders"] and found, "a second child"
        )
        assert (grown["size"], pids(ready) < pids(grown)) == (2, True)
        assert "an operator's order for pool images: scale to 2" in "".join(run.lines)

        assert project("pools", "recycle", "images", "--yes").code == 0
        fresh = wait_for(
            lambda: (found := pool(project, "images"))["ready"] == 2 and not pids(found) & pids(grown) and found,
            "two new children",
        )
        assert (fresh["restarts"], {child["calls"] for child in fresh["children"]}) == (0, {0})
        assert {child["last_exit"].partition(": ")[2] for child in fresh["children"]} == {"recycled"}
        assert job(project, "thumb", "two")["result"] in pids(fresh)

        lines = [line.split() for line in project("status").out.splitlines()]
        assert ["images", "0", "running", "2/2"] in [line[:4] for line in lines]
        (document,) = project("status", "--json").documents
        assert document["workers"][0]["pools"]["images"]["ready"] == 2
        drained(run)
    assert project("pools", "ls").out.startswith("no pools")


@pytest.mark.full
def test_a_pool_in_a_crash_loop_makes_its_worker_unready_and_nothing_else(project: Project) -> None:
    with running(project, "run", **SOON) as run:
        run.wait_for("ready, listening")
        wait_for(lambda: project.process("probe", "ready").code == 0, "the fleet is ready")
        workers = {process.pid for process in run.family()}
        assert project("enqueue", "photos", "doomed", "null", "--id", "doomed").code == 0

        def put_off() -> bool:
            (document,) = project("jobs", "show", "doomed", "--json").documents
            told = [attempt["failure"]["code"] for attempt in document["history"]]
            return document["state"] == "delayed" and told[-1:] == ["pool_failed"]

        wait_for(put_off, "the job waits for a pool that works")
        reason = "3 children died and none completed a call; the last: exit code 7"

        def unready() -> dict[str, Any] | None:
            (document,) = project("status", "--json").documents
            (worker,) = document["workers"]
            return worker if worker["unready"] else None

        worker = wait_for(unready, "the worker says that it is not ready")
        (why,) = worker["unready"]
        assert why.startswith(f"pool broken has failed: {reason}")
        assert (worker["state"], worker["restarts"], worker["pid"] in workers) == ("ready", 0, True)
        probed = project.process("probe", "ready")
        assert probed.code == 1
        assert "pool broken has failed" in probed.out + probed.err
        assert project.process("probe", "live").code == 0
        told = wait_for(lambda: (found := pool(project, "broken"))["state"] == "failed" and found, "the record says so")
        assert told["reason"].startswith(reason)
        assert "pool broken has failed" in project("status").out
        # The worker lives, and its other pools work.
        assert job(project, "thumb", "one")["state"] == "completed"
        drained(run)
