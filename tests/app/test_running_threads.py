"""Handlers that run in a thread: their timeouts, abandoned runs, and a process that ends without them."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.app.working import Worker, start_problems, until, write
from workfleet import (
    App,
    Job,
    JobFailed,
    LockLost,
    Locks,
    handler,
    locked,
    schedule,
)
from workfleet.events import LockLostEvent
from workfleet.model.jobs import JobState

pytestmark = pytest.mark.usefixtures("project")


class Threads:
    @handler(timeout="1s")
    def one(self, job: Job[int]) -> None: ...

    @handler(timeout="1s", on_timeout="abandon")
    def fine(self, job: Job[int]) -> None: ...

    @schedule(every="1h", timeout="1s")
    def two(self) -> None: ...

    @handler(on_timeout="abandon")
    async def pointless(self, job: Job[int]) -> None: ...

    @handler()
    def generator(self, job: Job[int]) -> Any:
        yield 1


async def test_every_timeout_that_meets_a_thread_is_told_in_one_error() -> None:
    said = await start_problems(App("x", jobs=[Threads]))
    reason = "it has a timeout but runs in a thread, which cannot be ended."
    assert {name.removeprefix(f"{__name__}."): text.startswith(reason) for name, text in said.items()} == {
        "Threads.one": True, "Threads.two": True, "Threads.pointless": False, "Threads.generator": False
    }  # fmt: skip
    assert "this one can be ended" in said[f"{__name__}.Threads.pointless"]
    assert "it is a generator" in said[f"{__name__}.Threads.generator"]


async def test_an_operators_timeout_that_meets_a_thread_is_told_as_well() -> None:
    app = App("x")

    @app.handler()
    def work(job: Job[int]) -> None: ...

    said = await start_problems(app, jobs={"work": {"timeout": "5s"}})
    assert list(said) == [f"{__name__}.work"]


async def test_an_abandoned_run_fails_its_job_and_its_late_result_is_discarded() -> None:
    app, go_on = App("x"), threading.Event()

    @app.handler(timeout="50ms", on_timeout="abandon", attempts=1)
    def deaf(job: Job[int]) -> str:
        go_on.wait(10)
        return "late"

    async with Worker(app, concurrency=1) as worker:
        ref = await worker.client.enqueue(deaf.job(1))
        with pytest.raises(JobFailed, match=r"did not end within its timeout of 0\.05 s"):
            await ref.result(timeout="10s")
        go_on.set()
        record = await ref.record()
    assert (record.outcome, record.result) == ("timed_out", None)


async def test_a_lost_lock_does_not_let_a_thread_run_twice_at_a_time() -> None:
    inside, most, go_on = [0], [0], threading.Event()
    app = App("x")

    @app.handler(attempts=2, backoff="1ms")
    @locked("ledger", ttl="1s")
    def work(job: Job[int]) -> str:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        if job.attempt == 1:
            go_on.wait(10)
        inside[0] -= 1
        return f"attempt {job.attempt}"

    async with Worker(app) as worker:
        ref = await worker.client.enqueue(work.job(1))
        await until(lambda: inside[0] == 1)
        locks = await worker.get(Locks)
        assert await locks.release("ledger")
        await until(lambda: worker.told(LockLostEvent))  # its body is to end, and the thread does not
        assert (await ref.record()).state is JobState.ACTIVE
        go_on.set()
        assert await ref.result(timeout="10s") == "attempt 2"
        record = await ref.record()
    assert most == [1]
    assert record.history[0].failure is not None
    assert record.history[0].failure.code == LockLost.code


def test_a_thread_that_never_ends_does_not_keep_a_process_from_ending(project: Path) -> None:
    write(
        project,
        {
            "hangs": """
import asyncio, threading
from workfleet import App, Job
app = App("hangs", store="memory://")

@app.handler()
def forever(job: Job[None]) -> None:
    print("began", flush=True)
    threading.Event().wait()

@app.on_bootstrap
async def enqueue(client: "Client") -> None:
    await client.enqueue(forever.job(None))

from workfleet import Client
asyncio.run(app.run())
print("ended", flush=True)
"""
        },
    )
    command = [sys.executable, "hangs.py"]
    environ = {"PATH": "/usr/bin:/bin", "WORKER_SHUTDOWN_TIMEOUT": "0s"}
    with subprocess.Popen(command, cwd=project, env=environ, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line == "began\n":
                break
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=20)
    assert said.endswith("ended\n")
    assert running.returncode == 0
