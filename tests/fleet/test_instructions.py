"""What an operator tells the workers of a real fleet through its store."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.fleet.running import Running, start
from tests.fleet.stored import finished, put, stored, until
from workfleet.app.status import read_status
from workfleet.model.fleet import Instruction, WorkerRecord
from workfleet.model.jobs import JobState
from workfleet.ports.stores import Store

HARD = Path(__file__).parent / "hard.py"
FAST = {"poll": "200ms", "lease": "30s"}


async def workers(store: Store, run: Running, count: int) -> list[WorkerRecord]:
    """The records of the fleet's living workers, by their index."""

    async def look() -> list[WorkerRecord] | None:
        assert run.process.poll() is None, run.log()
        alive = {process.pid for process in run.workers()}
        there = [record for record in await store.fleet.workers() if record.identity.pid in alive]
        return there if len(there) == count else None

    return await until(look, f"{count} workers are registered")


async def told(run: Running, instruction: str, times: int = 1) -> None:
    async def look() -> bool | None:
        return run.log().count(f"told this worker: {instruction}") >= times or None

    await until(look, f"a worker has heard: {instruction}")


async def run_jobs(store: Store, prefix: str, count: int = 6) -> set[int]:
    """Run jobs. Returns the processes that did."""
    for index in range(count):
        await put(store, f"{prefix}-{index}", name="plain", queue="plain")
    records = [await finished(store, f"{prefix}-{index}") for index in range(count)]
    assert {record.state for record in records} == {JobState.COMPLETED}
    assert {len(record.history) for record in records} == {1}
    return {int(record.result or b"0") for record in records}


async def instruct(store: Store, worker: WorkerRecord, instruction: Instruction | None) -> None:
    assert await store.fleet.instruct(worker.id, instruction)


async def test_a_quiet_worker_claims_nothing_until_that_is_taken_back(tmp_path: Path) -> None:
    async with stored(tmp_path) as store:
        run = start(tmp_path, "--processes", "2", program=HARD, **FAST)
        quiet, other = await workers(store, run, 2)
        await instruct(store, quiet, "quiet")
        await told(run, "quiet")
        assert await run_jobs(store, "first", 20) == {other.identity.pid}

        # With its last worker quiet nothing is claimed, although every worker is asked at each poll.
        await instruct(store, other, "quiet")
        await told(run, "quiet", 2)
        await put(store, "waits", name="plain", queue="plain")
        (before,) = [worker.seen_ms for worker in await store.fleet.workers() if worker.id == quiet.id]

        async def three_polls() -> bool | None:
            return any(w.id == quiet.id and w.seen_ms > before + 600 for w in await store.fleet.workers()) or None

        await until(three_polls, "three polls have passed")
        (waits,) = await store.jobs.get(["waits"])
        assert waits is not None
        assert waits.state is JobState.WAITING

        await instruct(store, quiet, None)
        record = await finished(store, "waits")
        assert record.result == str(quiet.identity.pid).encode()
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert "0 crashes" in run.log() or "crash" not in run.log()


async def test_a_recycled_worker_ends_its_jobs_and_is_replaced_at_once(tmp_path: Path) -> None:
    async with stored(tmp_path) as store:
        run = start(tmp_path, program=HARD, **FAST)
        (first,) = await workers(store, run, 1)
        for index in range(20):
            await put(store, f"job-{index}", name="plain", queue="plain")
        await instruct(store, first, "recycle")
        await told(run, "recycle")

        async def replaced() -> WorkerRecord | None:
            there = [record for record in await store.fleet.workers() if record.id != first.id]
            return there[0] if there else None

        second = await until(replaced, "another worker works")
        assert second.instruction is None
        records = [await finished(store, f"job-{index}") for index in range(20)]
        assert {(record.state, record.crashes, len(record.history)) for record in records} == {
            (JobState.COMPLETED, 0, 1)
        }
        assert await run_jobs(store, "after") == {second.identity.pid}
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert "died" not in run.log()


async def test_workers_that_are_told_to_stop_are_not_replaced_and_the_last_ends_the_fleet(tmp_path: Path) -> None:
    async with stored(tmp_path) as store:
        run = start(tmp_path, "--processes", "2", program=HARD, status_file=str(tmp_path / "status.json"), **FAST)
        one, other = await workers(store, run, 2)
        await instruct(store, one, "stop")
        assert [record.id for record in await workers(store, run, 1)] == [other.id]
        assert await run_jobs(store, "left") == {other.identity.pid}

        async def one_has_stopped() -> bool | None:
            status = read_status(tmp_path / "status.json")
            states = [(each.state, each.instruction) for each in status.workers] if status else []
            return sorted(states, key=str) == [("ready", None), ("stopped", "stop")] or None

        await until(one_has_stopped, "the status file says so")
        await instruct(store, other, "stop")
        assert await asyncio.to_thread(run.wait) == 0
        assert await store.fleet.workers() == []
        status = read_status(tmp_path / "status.json")
        assert status is not None
        assert (status.state, status.reason) == ("stopped", "every worker was told to stop")


async def test_a_process_without_a_supervisor_ends_its_run(tmp_path: Path) -> None:
    """For "recycle" too: whoever started it may start it anew."""
    for instruction in ("stop", "recycle"):
        async with stored(tmp_path) as store:
            code = "import asyncio, hard; asyncio.run(hard.app.run()); print('over')"
            environ = {
                **os.environ,
                "TEST_FOLDER": str(tmp_path),
                "WORKER_POLL": "200ms",
                "PYTHONPATH": str(HARD.parent),
            }
            process = subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, cwd=tmp_path)
            try:

                async def registered(pid: int = process.pid) -> WorkerRecord | None:
                    return next((w for w in await store.fleet.workers() if w.identity.pid == pid), None)

                worker = await until(registered, "it works")
                await instruct(store, worker, instruction)  # type: ignore[arg-type]
                said, _ = await asyncio.to_thread(process.communicate, timeout=30)
                assert (process.returncode, said) == (0, b"over\n")
                assert await store.fleet.workers() == []
            finally:
                process.kill()
                process.wait()
