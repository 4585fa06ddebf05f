"""A worker tells which jobs wait for a place in a pool, so that `jobs explain` can say it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.app.working import Worker, until, write
from workfleet.model.jobs import JobRecord, JobState
from workfleet.queues.jobs import Jobs

PROGRAM = {
    "waits": """
import time
from pathlib import Path

from workfleet import App, Job, Pool, process, public

@process("images", size=1)
class Images:
    @public
    def resize(self, flag: str) -> None:
        while not Path(flag).exists():
            time.sleep(0.01)

app = App("waits")

@app.handler("by-call", queue="q")
async def by_call(job: Job[str], images: Pool[Images]) -> None:
    await images.resize(job.data)

@app.handler("in-child", queue="q", pool="images")
def in_child(job: Job[str]) -> None:
    while not Path(job.data).exists():
        time.sleep(0.01)

app.jobs.append(Images)
"""
}


async def test_jobs_that_wait_for_a_child_are_told_the_longest_waiting_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, PROGRAM)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    app, flag = import_module("waits").app, tmp_path / "flag"
    payload = f'"{flag}"'.encode()
    async with Worker(app, locator="waits:app", heartbeat_enabled=False, poll="100ms") as worker:
        jobs = await worker.get(Jobs)
        for job_id, name in [("a", "by-call"), ("b", "in-child"), ("c", "by-call")]:
            await worker.store.jobs.enqueue([JobRecord(id=job_id, queue="q", name=name, payload=payload)])
            await until(lambda: worker.runtime.exchange.active)
        told = worker.runtime.pooling.states

        def waiting() -> list[str]:
            return [job for report in told() for job in report.waiting]

        await until(lambda: len(waiting()) == 2, 60)
        first, second = waiting()
        (runs,) = {"a", "b", "c"} - {first, second}

        async def codes(job_id: str) -> list[str]:
            return [reason.code for reason in await jobs.explain(job_id)]

        while [await codes(each) for each in (runs, first, second)] != [[], ["pool"], ["pool"]]:  # with the next pulse
            await worker.runtime.clock.sleep(0.02)
        (reason,) = await jobs.explain(second)
        assert reason.text.startswith("a free child of pool 'images': 1 of 1 are busy, and 2 calls wait, as its worker")
        flag.touch()
        await until(lambda: not waiting(), 60)
        while [job.state for job in await worker.jobs(queue="q")] != [JobState.COMPLETED] * 3:
            await worker.runtime.clock.sleep(0.02)
